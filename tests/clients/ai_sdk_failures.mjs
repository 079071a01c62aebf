// What a refusal becomes, and who gives up on a stream.
import { generateText, streamText } from "ai";
import { model, print, prompt } from "./ai_sdk_model.mjs";

try {
  await generateText({ model: model(), prompt: "word ".repeat(900), maxRetries: 2 });
} catch (error) {
  print({ name: error.name, statusCode: error.statusCode, message: error.message, isRetryable: error.isRetryable });
}
const controller = new AbortController();
const { textStream } = streamText({ model: model(), prompt, maxRetries: 0, abortSignal: controller.signal, onError() {} });
let text = "";
for await (const piece of textStream) {
  text += piece;
  controller.abort();
}
print({ text });
