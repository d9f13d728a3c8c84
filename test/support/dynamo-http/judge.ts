import { DIFFERENCES } from '../differences.ts';
import { borderFaults } from './chunk-borders.ts';
import { type Exchange, isCutShort, readAnswer } from './exchange.ts';
import type { Expectation } from './expectation.ts';
import { type Body, isBatch, isChat, isCompletions, isEmbeddings, isMedia, nvextOf, requestBody } from './fields.ts';
import { identityFaults } from './identities.ts';
import { hasIdleTime, idleFaults, isComment } from './idle-comments.ts';
import { byPrompt, joinChunks } from './join-chunks.ts';
import { maskAnswer, maskTexts } from './masks.ts';
import { anything, differencesOf, Matcher, oneOf } from './match.ts';
import type { Answer, RecordedRow } from './records.ts';
import { timeFaults } from './times.ts';

/**
 * Returns the places where an exchange is neither as recorded nor as decided.
 *
 * @param applied collects the reasons of the decided differences from the record that apply
 */
export function judge(exchange: Exchange, applied: string[] = []): readonly string[] {
  const { row } = exchange;
  const { answer, faults } = readAnswer(exchange);
  const { expected, compared, reasons } = expectationOf(row);
  applied.push(...reasons);
  const actual = normalise(answer, row, expected);
  const hasFrames = Array.isArray(expected.frames) && answer.frames !== undefined;
  return [
    ...faults,
    ...(isDocument(answer) ? [] : [...identityFaults(exchange, answer), ...timeFaults(exchange, answer)]),
    ...(hasFrames ? idleFaults(row, answer) : []),
    ...(hasFrames && expected.isJoined === true ? borderFaults(row, answer) : []),
    ...differencesOf(compared, { ...actual, worker: exchange.worker.map(maskTexts) }),
    ...(row.worker_cancelled === true && !exchange.wasCancelled ? ['the worker was not cancelled'] : []),
  ];
}

/** Whether an answer is a description of the API, whose keys are names of fields. */
function isDocument({ body }: Answer): boolean {
  return typeof body === 'object' && body !== null && 'openapi' in body;
}

/** The expected answer to a row. */
interface Judgement {
  readonly expected: Expectation;
  /** The expectation in the form of the comparison. */
  readonly compared: object;
  /** Reasons of the differences from the record. */
  readonly reasons: readonly string[];
}

/** Judgements by row. To judge an answer does not change the expectation. */
const judgements = new WeakMap<RecordedRow, Judgement>();

/** Returns the compared part of the record, after every difference that applies. */
function expectationOf(row: RecordedRow): Judgement {
  const known = judgements.get(row);
  if (known !== undefined) return known;
  const expected: Expectation = structuredClone({
    status: row.status,
    headers: { ...row.headers },
    ...(row.body === undefined ? {} : { body: row.body }),
    ...(row.text === undefined ? {} : { text: row.text }),
    ...(row.frames === undefined ? {} : { frames: [...row.frames] }),
    worker: [],
  });
  expected.worker = (row.worker_request ?? []).map((seen) => recordedWorkerRequest(structuredClone(seen), row));
  if (row.served?.kind === 'textin' && Number(row.status) < 400) expected.worker = [bodyUntouched(row)];
  const reasons: string[] = [];
  for (const difference of DIFFERENCES) {
    if (!difference.applies(row, expected)) continue;
    difference.rewrite(expected, row);
    reasons.push(difference.why);
  }
  const judgement = { expected, compared: comparable(expected), reasons };
  judgements.set(row, judgement);
  return judgement;
}

function comparable({ isJoined, ...expected }: Expectation): object {
  if (!Array.isArray(expected.frames)) return expected;
  if (isJoined !== true) return expected;
  const joined = joinChunks(expected.frames);
  for (const choice of joined.choices) {
    // Null if the first delta is a call. The record does not tell this if an output had nothing to show.
    if (/^role call/.test(choice.order)) choice.roleContent = oneOf('', null);
  }
  return { ...expected, frames: [joined] };
}

function recordedWorkerRequest(seen: Readonly<Record<string, unknown>>, row: RecordedRow): Record<string, unknown> {
  if (isMedia(row)) return { ...seen };
  return {
    prompt: isEmbeddings(row) ? anything : seen.prompt, // the record does not contain it
    prompt_embeds: seen.prompt_embeds,
    multi_modal_data: seen.multi_modal_data,
    stop_conditions: { ...(seen.stop_conditions as object) },
    sampling_options: withoutSingleN({ ...(seen.sampling_options as object) }),
    output_options: { ...(seen.output_options as object) },
    routing: withPins({ ...(seen.routing as object) }, row),
  };
}

/** Returns the request of a worker that takes bodies unchanged. The record may show it in another shape. */
function bodyUntouched(row: RecordedRow): Record<string, unknown> {
  const { model: _model, ...asked } = requestBody(row);
  const keys = ['messages', 'prompt', 'temperature', 'max_tokens', 'tools'].filter((key) => key in asked);
  return new Matcher('the body of the request', (seen) =>
    keys.every((key) => JSON.stringify((seen as Body)[key]) === JSON.stringify(asked[key])),
  ) as unknown as Record<string, unknown>;
}

const PINS = ['backend_instance_id', 'prefill_worker_id', 'decode_worker_id'] as const;

/** Restores the worker ids, which the record masks: those of the request, as text. */
function withPins(routing: Body, row: RecordedRow): Body {
  for (const key of PINS) if (key in routing) routing[key] = String(nvextOf(row)[key]);
  return routing;
}

/** Removes `n` if it is one, because every engine makes one choice by default. */
function withoutSingleN({ n, ...rest }: { readonly n?: number }): object {
  return n === undefined || n === 1 ? rest : { n, ...rest };
}

function normalise(answer: Answer, row: RecordedRow, expected: Expectation): Answer & { frames?: unknown } {
  const masked = maskAnswer(answer, row) as Answer & { body?: { instances?: unknown[] } };
  if (masked.body?.instances !== undefined) masked.body.instances = masked.body.instances.slice(0, 2);
  if (masked.frames === undefined) return masked;
  let frames = [...masked.frames];
  if (isBatch(row)) frames = byPrompt(frames);
  if (hasIdleTime(row)) frames = frames.filter((frame) => !isComment(frame));
  // How many more frames arrived before the client left is chance.
  if (isCutShort(row) && Array.isArray(expected.frames)) frames.splice(expected.frames.length);
  const isJoined = expected.isJoined === true && (isChat(row) || isCompletions(row));
  return { ...masked, frames: isJoined ? [joinChunks(frames)] : frames } as Answer & { frames?: unknown };
}
