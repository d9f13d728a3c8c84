import type { Frame, JsonObject } from '../../../support/dynamo-http/records.ts';
import { parseFrames } from '../../../support/dynamo-http/wire-answer.ts';
import { createTestApp, type TestAppOptions } from '../../../support/http-app.ts';
import { defaultHttpSettings } from '../../../support/http-settings.ts';
import { type ScriptedCall, ScriptedPipeline } from '../../../support/scripted-pipeline.ts';

/** Settings of a server that speaks Anthropic's dialect. */
export const ANTHROPIC = { anthropic: { isEnabled: true, stripsPreamble: true } };

export const USAGE = { promptTokens: 30, completionTokens: 5, cachedTokens: 10 };

export type Play = (call: ScriptedCall) => void;

/** A `POST` below the messages path. */
export function post(fields: object, path = '/v1/messages', headers: Readonly<Record<string, string>> = {}): Request {
  const body = { model: 'm', max_tokens: 50, messages: [{ role: 'user', content: 'hi' }], ...fields };
  return new Request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01', ...headers },
    body: JSON.stringify(body),
  });
}

/** Answers one request with what `play` writes. */
export async function answer(fields: object, play: Play, options: TestAppOptions = {}) {
  const pipeline = new ScriptedPipeline().onGenerate(play);
  const settings = { ...defaultHttpSettings, ...ANTHROPIC, ...options.settings };
  const test = createTestApp({ pipeline, ...options, settings });
  const response = await test.app.fetch(post(fields));
  return { ...test, pipeline, response, text: await response.text() };
}

/** The message object of a unary answer. */
export async function message(fields: object, play: Play): Promise<JsonObject> {
  return JSON.parse((await answer(fields, play)).text) as JsonObject;
}

/** The events of a streamed answer. */
export async function frames(fields: object, play: Play, options: TestAppOptions = {}): Promise<readonly Frame[]> {
  return parseFrames((await answer({ stream: true, ...fields }, play, options)).text);
}

/** The object that a frame carries. */
export function dataOf(frame: Frame | undefined): JsonObject {
  return (frame?.data ?? {}) as JsonObject;
}

/** Names of the events, deltas by their type. */
export function namesOf(seen: readonly Frame[]): readonly string[] {
  return seen.map((frame) => String((dataOf(frame).delta as JsonObject | undefined)?.type ?? frame.event));
}
