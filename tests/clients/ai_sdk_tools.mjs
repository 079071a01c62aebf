// generateText with a tool: a call, its result and the answer, in as many steps as it takes.
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";
import { model, print, prompt } from "./ai_sdk_model.mjs";

const weather = tool({
  description: "The weather of a place.",
  inputSchema: z.object({ place: z.string(), days: z.number().int(), unit: z.enum(["C", "F"]).optional() }),
  execute: async ({ place, days }) => ({ place, days, sky: "clear" }),
});
const { text, reasoningText, steps, finishReason, totalUsage } = await generateText({
  model: model(),
  prompt,
  tools: { weather },
  stopWhen: stepCountIs(4),
  maxRetries: 0,
});
print({
  text,
  reasoningText,
  finishReason,
  totalUsage,
  steps: steps.map((step) => ({
    text: step.text,
    reasoning: step.reasoningText,
    finishReason: step.finishReason,
    calls: step.toolCalls.map(({ toolCallId, toolName, input, invalid }) => ({ toolCallId, toolName, input, invalid })),
    results: step.toolResults.map(({ toolCallId, output }) => ({ toolCallId, output })),
  })),
});
