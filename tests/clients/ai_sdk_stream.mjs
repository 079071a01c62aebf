// streamText: every part, one JSON a line.
import { streamText } from "ai";
import { model, print, prompt } from "./ai_sdk_model.mjs";

const { fullStream } = streamText({ model: model(), prompt, maxRetries: 0, onError() {} });
for await (const part of fullStream) print(part);
