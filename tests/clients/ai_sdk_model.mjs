// The provider as users set it up; BASE and PROMPT come from the test.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

globalThis.AI_SDK_LOG_WARNINGS = false;  // they go to stdout
export const prompt = process.env.PROMPT;
export const print = (value) => console.log(JSON.stringify(value));

export function model(supportsStructuredOutputs = true) {
  const provider = createOpenAICompatible({
    name: "tandem",
    baseURL: `${process.env.BASE}/v1`,
    apiKey: "sk-local",
    includeUsage: true,
    supportsStructuredOutputs,
  });
  return provider("TandemLLM");
}
