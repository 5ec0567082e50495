// Holds the official Node clients, and Vercel's `ai` as the strictest reader, against the stand-ins.
//
// Usage: node sdks.mjs ADDRESSES EXPECTED TALLY; see sdks.py for what the table of expectations means.

import { appendFileSync, readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import AnthropicSdk from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAiSdk from "openai";

const addresses = JSON.parse(process.argv[2]);
const expected = JSON.parse(readFileSync(process.argv[3], "utf8"));
const url = Object.fromEntries(addresses.dialects.map((one) => [one.name, one.base_url]));
const QUESTION = "What is the weather in Oslo?";
const FOUND = '{"temp_c": 12, "sky": "clear", "city": "Oslo"}';
const REPORT = "It is 12 C and clear in Oslo.";
const WORDS = "one two three four five";
const ANSWER = "You asked: one two three four five";
const ABOUT = "Get the current weather for a city";
const TIMEOUT_MS = 4000;
// See PATIENCE_S in sdks.py.
const PATIENCE_MS = 2 * TIMEOUT_MS;
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
};

class OpenAI {
  name = "openai (Node)";
  client = new OpenAiSdk({ baseURL: url.openai, apiKey: "any", maxRetries: 0, timeout: TIMEOUT_MS });
  tools = [{ type: "function", function: { name: "get_weather", description: ABOUT, parameters } }];

  async complete(model, text) {
    const answer = await this.client.chat.completions.create({
      model,
      messages: [{ role: "user", content: text }],
    });
    const { prompt_tokens, completion_tokens } = answer.usage;
    return [answer.choices[0].message.content, prompt_tokens, completion_tokens];
  }

  async stream(model, text) {
    const stream = await this.client.chat.completions.create({
      model,
      messages: [{ role: "user", content: text }],
      stream: true,
      stream_options: { include_usage: true },
    });
    let said = "";
    let usage;
    for await (const chunk of stream) {
      said += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    return [said, usage?.prompt_tokens, usage?.completion_tokens];
  }

  async toolLoop(model) {
    const messages = [{ role: "user", content: QUESTION }];
    const ask = () =>
      this.client.chat.completions.create({ model, messages, tools: this.tools });
    const turn = (await ask()).choices[0].message;
    const call = turn.tool_calls[0];
    messages.push(turn, { role: "tool", tool_call_id: call.id, content: FOUND });
    const said = (await ask()).choices[0].message.content;
    return [call.function.name, JSON.parse(call.function.arguments), said];
  }

  async toolStream(model) {
    const runner = this.client.chat.completions.stream({
      model,
      messages: [{ role: "user", content: QUESTION }],
      tools: this.tools,
    });
    const call = (await runner.finalChatCompletion()).choices[0].message.tool_calls[0];
    return [call.function.name, JSON.parse(call.function.arguments)];
  }
}

class Anthropic {
  name = "@anthropic-ai/sdk (Node)";
  client = new AnthropicSdk({
    baseURL: url.anthropic,
    apiKey: "any",
    maxRetries: 0,
    timeout: TIMEOUT_MS,
  });
  tools = [{ name: "get_weather", description: ABOUT, input_schema: parameters }];

  async complete(model, text) {
    const messages = [{ role: "user", content: text }];
    const answer = await this.client.messages.create({ model, max_tokens: 100, messages });
    const { input_tokens, output_tokens } = answer.usage;
    return [answer.content[0].text, input_tokens, output_tokens];
  }

  async stream(model, text) {
    const messages = [{ role: "user", content: text }];
    const stream = this.client.messages.stream({ model, max_tokens: 100, messages });
    const answer = await stream.finalMessage();
    const { input_tokens, output_tokens } = answer.usage;
    return [answer.content[0].text, input_tokens, output_tokens];
  }

  async toolLoop(model) {
    const messages = [{ role: "user", content: QUESTION }];
    const ask = () =>
      this.client.messages.create({ model, max_tokens: 100, messages, tools: this.tools });
    const turn = await ask();
    const call = turn.content.at(-1);
    messages.push(
      { role: "assistant", content: turn.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: FOUND }] },
    );
    return [call.name, call.input, (await ask()).content[0].text];
  }

  async toolStream(model) {
    const messages = [{ role: "user", content: QUESTION }];
    const asked = { model, max_tokens: 100, messages, tools: this.tools };
    const call = (await this.client.messages.stream(asked).finalMessage()).content.at(-1);
    return [call.name, call.input];
  }
}

class Gemini {
  name = "@google/genai (Node)";
  client = new GoogleGenAI({
    apiKey: "any",
    httpOptions: { baseUrl: url.gemini, timeout: TIMEOUT_MS, retryOptions: { attempts: 1 } },
  });
  config = {
    tools: [
      {
        functionDeclarations: [
          { name: "get_weather", description: ABOUT, parametersJsonSchema: parameters },
        ],
      },
    ],
  };

  async complete(model, text) {
    const answer = await this.client.models.generateContent({ model, contents: text });
    const { promptTokenCount, candidatesTokenCount } = answer.usageMetadata;
    return [answer.text, promptTokenCount, candidatesTokenCount];
  }

  async stream(model, text) {
    let said = "";
    let usage;
    for await (const chunk of await this.client.models.generateContentStream({
      model,
      contents: text,
    })) {
      said += chunk.text ?? "";
      usage = chunk.usageMetadata ?? usage;
    }
    return [said, usage?.promptTokenCount, usage?.candidatesTokenCount];
  }

  async toolLoop(model) {
    const contents = [{ role: "user", parts: [{ text: QUESTION }] }];
    const ask = () =>
      this.client.models.generateContent({ model, contents, config: this.config });
    const turn = await ask();
    const call = turn.functionCalls[0];
    const result = { functionResponse: { name: call.name, response: { result: FOUND } } };
    contents.push(turn.candidates[0].content, { role: "user", parts: [result] });
    return [call.name, call.args, (await ask()).text];
  }

  async toolStream(model) {
    const calls = [];
    for await (const chunk of await this.client.models.generateContentStream({
      model,
      contents: QUESTION,
      config: this.config,
    })) {
      calls.push(...(chunk.functionCalls ?? []));
    }
    return [calls[0].name, calls[0].args];
  }
}

class Vercel {
  constructor(name, model) {
    this.name = name;
    this.model = model;
  }

  asked(model, prompt) {
    return {
      model: this.model(model),
      prompt,
      maxRetries: 0,
      abortSignal: AbortSignal.timeout(TIMEOUT_MS),
    };
  }

  async complete(model, text) {
    const answer = await generateText(this.asked(model, text));
    return [answer.text, answer.usage.inputTokens, answer.usage.outputTokens];
  }

  async stream(model, text) {
    let failure;
    const stream = streamText({
      ...this.asked(model, text),
      onError: ({ error }) => {
        failure ??= error;
      },
    });
    let said = "";
    for await (const part of stream.fullStream) {
      if (part.type === "text-delta") said += part.text;
      if (part.type === "abort") failure ??= new DOMException("given up", "AbortError");
    }
    if (failure) throw failure;
    const usage = await stream.usage;
    return [said, usage.inputTokens, usage.outputTokens];
  }

  tools(seen) {
    return {
      get_weather: tool({
        description: ABOUT,
        inputSchema: jsonSchema(parameters),
        execute: async (input) => {
          seen.push(input);
          return FOUND;
        },
      }),
    };
  }

  async toolLoop(model) {
    const seen = [];
    const answer = await generateText({
      ...this.asked(model, QUESTION),
      tools: this.tools(seen),
      stopWhen: stepCountIs(3),
    });
    return [answer.steps[0].toolCalls[0].toolName, seen[0], answer.text];
  }

  async toolStream(model) {
    const seen = [];
    const stream = streamText({ ...this.asked(model, QUESTION), tools: this.tools(seen) });
    const [call] = await stream.toolCalls;
    return [call.toolName, call.input];
  }
}

// The name of the exception and its status, or how the answer ended.
async function outcome(call) {
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, "waits"));
  try {
    const seen = await Promise.race([call(), late]);
    if (seen === "waits") return seen;
    return seen[0] === ANSWER ? "ok" : "silent";
  } catch (error) {
    const status = error?.status ?? error?.statusCode;
    let name = error?.constructor?.name ?? typeof error;
    // Vercel's errors are told apart by their names.
    if (typeof error?.name === "string" && error.name.startsWith("AI_")) name = error.name;
    if (error?.name === "AbortError" || error?.name === "TimeoutError") name = error.name;
    return Number.isInteger(status) ? `${name} ${status}` : name;
  }
}

const openai = createOpenAI({ baseURL: url.openai, apiKey: "any" });
const anthropic = createAnthropic({ baseURL: `${url.anthropic}/v1`, apiKey: "any" });
const google = createGoogleGenerativeAI({ baseURL: `${url.gemini}/v1beta`, apiKey: "any" });
const compatible = createOpenAICompatible({
  name: "local",
  baseURL: url.compatible,
  includeUsage: true,
});

const clients = [
  new OpenAI(),
  new Anthropic(),
  new Gemini(),
  new Vercel("ai with @ai-sdk/openai", (model) => openai.chat(model)),
  new Vercel("ai with @ai-sdk/anthropic", (model) => anthropic(model)),
  new Vercel("ai with @ai-sdk/google", (model) => google(model)),
  new Vercel("ai with @ai-sdk/openai-compatible", (model) => compatible(model)),
];
// A client that leaves a promise behind must not end the run: what it reports counts.
process.on("unhandledRejection", () => {});
// Some write to the console what they throw as well.
globalThis.AI_SDK_LOG_WARNINGS = false;
console.error = () => {};

async function examine(client) {
  const bad = [];
  let good = 0;
  const check = (what, seen, wanted) => {
    if (isDeepStrictEqual(seen, wanted)) good += 1;
    else bad.push(`${what}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(seen)}`);
  };
  try {
    const [said, sent, received] = await client.complete("m", WORDS);
    check("complete", [said, received], [ANSWER, 7]);
    check("complete, tokens of the prompt", sent > 0, true);
    check("stream", await client.stream("m", WORDS), [said, sent, received]);
    check("slow stream", (await client.stream("slow", WORDS))[0], ANSWER);
    const weather = ["get_weather", { city: "Oslo" }];
    check("tools", await client.toolLoop("m"), [...weather, REPORT]);
    check("tools in a stream", await client.toolStream("m"), weather);
  } catch (error) {
    bad.push(`answers: ${error?.name}: ${error?.message}`);
  }
  for (const [model, [whole, streamed]] of Object.entries(expected[client.name])) {
    check(`${model}, complete`, await outcome(() => client.complete(model, WORDS)), whole);
    check(`${model}, stream`, await outcome(() => client.stream(model, WORDS)), streamed);
  }
  return { name: client.name, good, bad };
}

let passed = 0;
let failed = 0;
// Side by side, because most of the time goes into waiting for limits.
for (const { name, good, bad } of await Promise.all(clients.map(examine))) {
  console.log(`${name}: ${good} passed, ${bad.length} failed`);
  for (const one of bad) console.log(`  ${one}`);
  passed += good;
  failed += bad.length;
}
appendFileSync(process.argv[4], `${passed} ${failed}\n`);
// Calls that still wait must not keep the process.
process.exit(0);
