import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { fromJson, type JsonValue, toJson } from '@bufbuild/protobuf';
import { type KserveClient, methodOf, type Outcome } from './kserve-client.ts';
import type { ScriptedKserve } from './scripted-server.ts';

/** Expected answer. The README of the folder describes its fields. */
interface Expectation {
  readonly code?: number;
  readonly message?: string;
  readonly message_parts?: readonly string[];
  readonly responses?: readonly Record<string, unknown>[];
  readonly ignore?: readonly string[];
  readonly same_as_expect?: boolean;
  readonly error_message_parts?: readonly string[];
  readonly error_extra_ok?: boolean;
  readonly final_opt_in?: boolean;
  readonly worker_request?: Readonly<Record<string, unknown>>;
  readonly ruling?: unknown;
}

export interface RecordedCase {
  readonly id: string;
  readonly rpc: string;
  readonly metadata?: readonly (readonly [string, string])[];
  readonly requests: readonly unknown[];
  readonly expect: Expectation;
  readonly product?: Expectation;
}

/** Reads the cases of a folder in the format of test/fixtures/kserve. */
export function readCases(folder: string): readonly RecordedCase[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .flatMap((name) => {
      const file: unknown = JSON.parse(readFileSync(join(folder, name), 'utf8'));
      return (Array.isArray(file) ? file : (file as { cases: unknown }).cases) as RecordedCase[];
    });
}

/** Plays one case. Returns the faults of the answer. */
export async function playCase(
  each: RecordedCase,
  client: KserveClient,
  models: ScriptedKserve,
): Promise<readonly string[]> {
  const outcome = await client.ask(each.rpc, each.requests, each.metadata);
  const expected = expectationOf(each);
  const faults = [...faultsOf(outcome, expected, each.rpc)];
  for (const [key, value] of Object.entries(expected.worker_request ?? {})) {
    const seen = models.bodies.at(-1)?.[key];
    if (!isDeepStrictEqual(seen, value)) faults.push(`the worker's ${key} is ${show(seen)}, not ${show(value)}`);
  }
  return faults;
}

function expectationOf({ expect, product }: RecordedCase): Expectation {
  if (product === undefined) return expect;
  return product.same_as_expect === true ? { ...expect, ...product } : product;
}

function* faultsOf(outcome: Outcome, expected: Expectation, rpc: string): Generator<string> {
  const { code = 0, message, message_parts: parts = [], responses } = expected;
  if (outcome.code !== code) yield `code ${outcome.code} (${outcome.message}), not ${code}`;
  if (message !== undefined && !says(outcome.message, message))
    yield `message ${show(outcome.message)}, not ${show(message)}`;
  for (const part of parts) {
    const plain = part.replaceAll('\\"', '"');
    if (!outcome.message.includes(plain)) yield `message ${show(outcome.message)} without ${show(plain)}`;
  }
  const inBand = outcome.responses.map(({ error_message: text }) => text).filter((text) => text !== undefined);
  for (const part of expected.error_message_parts ?? []) {
    if (!inBand.some((text) => String(text).includes(part)))
      yield `no error in the stream with ${show(part)}: ${show(inBand)}`;
  }
  if (expected.final_opt_in === true) {
    yield* finalFaults(outcome); // replaces the comparison with responses that lack the flag
    return;
  }
  if (responses === undefined) return;
  const { output } = methodOf(rpc);
  const normal = (json: unknown): unknown =>
    toJson(output, fromJson(output, json as JsonValue), { useProtoFieldName: true });
  const [got, want] = [outcome.responses, responses].map((list) =>
    list.map((response) => stripped(normal(response) as Record<string, unknown>, expected)),
  );
  if (!isDeepStrictEqual(got, want)) yield `responses ${show(got)}, not ${show(want)}`;
}

/**
 * Removes the keys that are not compared. Of an error in the stream, which may have more fields, only the error stays.
 */
function stripped(
  response: Record<string, unknown>,
  { ignore = [], ...expected }: Expectation,
): Record<string, unknown> {
  const left = Object.fromEntries(Object.entries(response).filter(([key]) => !ignore.includes(key)));
  if (left.error_message === undefined) return left;
  const { error_message: text, ...more } = left;
  return {
    error_message: expected.error_message_parts === undefined ? text : 'compared by its parts',
    ...(expected.error_extra_ok === true ? {} : more),
  };
}

/**
 * Checks that every response of a request that opted in says whether it is the last one, and that the last one has no
 * outputs.
 */
function* finalFaults({ responses }: Outcome): Generator<string> {
  const flags = responses.map((response) => {
    const infer = response.infer_response as { parameters?: Record<string, { bool_param?: boolean }> } | undefined;
    return infer?.parameters?.triton_final_response?.bool_param;
  });
  const wanted = flags.map((_, at) => at === flags.length - 1);
  if (!isDeepStrictEqual(flags, wanted)) yield `final flags ${show(flags)}, not ${show(wanted)}`;
}

function show(value: unknown): string {
  return JSON.stringify(value);
}

/** Compares messages. For a missing model, ours adds sentences that name the existing models. */
function says(text: string, recorded: string): boolean {
  return text === recorded || (/^Model '.*' not found$/.test(recorded) && text.startsWith(`${recorded}. `));
}
