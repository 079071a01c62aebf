// generateObject, once as json_schema and once as json_object, and streamObject.
import { generateObject, streamObject } from "ai";
import { z } from "zod";
import { model, print, prompt } from "./ai_sdk_model.mjs";

const schema = z.object({
  name: z.string(),
  age: z.number().int().nullable(),
  tags: z.array(z.enum(["a", "b"])),
  home: z.object({ city: z.string(), far: z.boolean() }),
});
for (const strict of [true, false]) {
  const { object, finishReason, reasoning } = await generateObject({ model: model(strict), schema, prompt, maxRetries: 0 });
  print({ object, finishReason, reasoning });
}
const stream = streamObject({ model: model(), schema, prompt, maxRetries: 0 });
let parts = 0;
for await (const _ of stream.partialObjectStream) parts += 1;
print({ object: await stream.object, finishReason: await stream.finishReason, parts });
