import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Deployment, startDeployment } from '../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../support/dynamo-http/records.ts';
import { spawnProgram, waitUntil } from '../support/index.ts';
import { CLIENT_SCRIPTS } from './client-scripts.ts';

const SCRIPT = fileURLToPath(new URL('./anthropic_client.py', import.meta.url));
const PYTHON = process.env.STATOR_TEST_PYTHON ?? '';

/** A message as anthropic_client.py shows it. */
interface Shape {
  readonly content: readonly Record<string, unknown>[];
  readonly stop_reason: string;
  readonly stop_sequence: string | null;
  readonly usage: Record<string, number>;
}

/** What anthropic_client.py prints. */
interface Report {
  readonly plain: Shape;
  readonly streamed: { texts: string[]; message: Shape };
  readonly thinking: Shape['content'];
  readonly tools: { stop: string; input: unknown; pieces: string[]; answer: string };
  readonly structured: unknown;
  readonly counted: { counted: number; spent: number };
  readonly models: { has_plain: boolean; one: string };
  readonly abort: number;
  readonly errors: Record<string, unknown>;
}

describe.runIf(PYTHON !== '')('the official Anthropic client for Python', () => {
  let server: Deployment;
  let report: Report;

  beforeAll(async () => {
    server = await startDeployment('default', FIXTURES, CLIENT_SCRIPTS);
    const script = spawnProgram(PYTHON, [SCRIPT, `http://127.0.0.1:${server.port}`]);
    expect(await script.exited, script.stderr()).toBe(0);
    report = JSON.parse(script.stdout()) as Report;
  });
  afterAll(() => server.close());

  it('gets a message, and the same one as a stream', () => {
    expect(report.plain).toMatchObject({
      content: [{ type: 'text', text: 'Hello there!' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { output_tokens: 13, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
    });
    expect(report.streamed).toEqual({ texts: ['Hello', ' there', '!'], message: report.plain });
  });

  it('reads thoughts before the answer', () => {
    expect(report.thinking).toEqual([
      { type: 'thinking', thinking: 'plan it', signature: 'erased' },
      { type: 'text', text: '\n\nHi' },
    ]);
  });

  it('calls a tool, whose input streams, and gets an answer to its result', () => {
    const { pieces, ...rest } = report.tools;
    expect(rest).toEqual({ stop: 'tool_use', input: { city: 'Paris' }, answer: 'It is warm.' });
    expect(pieces.length).toBeGreaterThan(1);
    expect(JSON.parse(pieces.join(''))).toEqual({ city: 'Paris' });
  });

  it('is answered in the schema it asks for', () => {
    expect(report.structured).toEqual({ n: 7 });
  });

  it('counts the tokens that a message then costs, and finds models', () => {
    expect(report.counted.counted).toBe(report.counted.spent);
    expect(report.models).toEqual({ has_plain: true, one: 'plain' });
  });

  it('frees the worker when it leaves a stream', async () => {
    expect(report.abort).toBe(3);
    await waitUntil(() => server.engine.seen.some((seen) => seen.wasCancelled), { what: 'a free worker' });
  });

  it('raises the class of each error, streamed and not', () => {
    expect(report.errors).toEqual({
      'wrong value': ['BadRequestError', 400, 'invalid_request_error'],
      'unknown model': ['NotFoundError', 404, 'not_found_error'],
      full: [expect.stringMatching(/^(OverloadedError|InternalServerError)$/), 529, 'overloaded_error'],
      limited: ['RateLimitError', 429, 'rate_limit_error'],
      refused: ['AuthenticationError', 401, 'authentication_error'],
      broken: ['InternalServerError', 500, 'api_error'],
      breaks: ['api_error'],
    });
  });
});
