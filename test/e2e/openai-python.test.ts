import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { type StatorProcess, spawnProgram, useFleet, waitUntil } from '../support/index.ts';

const MODEL = 'stator-mini';
const SCRIPT = fileURLToPath(new URL('./openai_client.py', import.meta.url));
const PYTHON = process.env.STATOR_TEST_PYTHON ?? '';

/** What openai_client.py prints. */
interface Report {
  readonly version: string;
  readonly chat: { text: string; role: string; finish: string; usage: Record<string, number> };
  readonly chat_stream: { text: string; ids: number; finish: string; usage: Record<string, number> };
  readonly stream_helper: { text: string; final: string };
  readonly completion: { text: string; streamed: string; tokens: number };
  readonly models: { ids: string[]; one: string };
  readonly errors: Record<string, unknown>;
  readonly abort: { seen: number };
  readonly at_once: { texts: string[] };
}

describe.runIf(PYTHON !== '')('the official Python client', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let worker: StatorProcess;
  let report: Report;

  beforeAll(async () => {
    [frontend, worker] = await Promise.all([fleet.frontend(), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
    const script = spawnProgram(PYTHON, [SCRIPT, frontend.url, MODEL]);
    expect(await script.exited, script.stderr()).toBe(0);
    report = JSON.parse(script.stdout()) as Report;
  });

  it('completes a chat, with usage', () => {
    const { text, usage } = report.chat;
    expect(report.chat).toMatchObject({ role: 'assistant', finish: 'length' });
    expect(text.length).toBeGreaterThan(10);
    expect(usage).toMatchObject({ completion_tokens: 16, total_tokens: (usage.prompt_tokens ?? 0) + 16 });
  });

  it('streams the same chat under one id', () => {
    const { text, usage } = report.chat;
    expect(report.chat_stream).toEqual({ text, ids: 1, finish: 'length', usage });
  });

  it('gathers a stream with its own stream helper', () => {
    const { text, final } = report.stream_helper;
    expect(text).toBe(final);
    expect(text).not.toContain('.'); // its stop string
    expect(report.chat.text).toContain(text); // which comes within the other's budget
  });

  it('completes a prompt, streamed and not', () => {
    expect(report.completion).toMatchObject({ tokens: 12, streamed: report.completion.text });
  });

  it('lists and retrieves models', () => {
    expect(report.models).toEqual({ ids: [MODEL], one: MODEL });
  });

  it('raises the class of each error, with its code', () => {
    expect(report.errors).toEqual({
      'wrong value': ['BadRequestError', 400, 'invalid_value', 'temperature'],
      'too long': ['BadRequestError', 400, 'context_length_exceeded', expect.anything()],
      'unknown model': ['NotFoundError', 404, 'model_not_found', 'model'],
      'unknown key': ['BadRequestError', 400, 'unknown_parameter', 'mesages'],
    });
  });

  it('frees the worker when it leaves a stream', async () => {
    expect(report.abort.seen).toBe(5);
    await frontend.waitForOutput(/request completed .*status=499/);
    await waitUntil(async () => (await worker.metric('dynamo_component_inflight_requests')) === 0);
  });

  it('reads many streams at once, each in full', () => {
    expect(report.at_once.texts).toEqual(Array.from({ length: 16 }, () => report.chat.text));
  });
});
