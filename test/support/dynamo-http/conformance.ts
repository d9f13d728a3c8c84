import { DIFFERENCES, IDLE_ROWS } from '../differences.ts';
import type { WorkerScript } from '../scripted-engine.ts';
import { waitUntil } from '../wait-until.ts';
import { type Deployment, startDeployment } from './deployments.ts';
import { byPrompt, type Expectation, isBatch } from './expectation.ts';
import { foldChat } from './fold-chat.ts';
import { anything, differencesOf } from './match.ts';
import { type HangUp, requestOf, send } from './raw-client.ts';
import { type Answer, loadRows, type RecordedRow } from './records.ts';
import { foldsChunks } from './tools-differences.ts';

/** Plays recorded exchanges against the product: the real app over a socket, with scripted workers behind. */
export class Conformance {
  readonly rows: readonly RecordedRow[];
  readonly #folder: string;
  readonly #scripts: ReadonlyMap<string, WorkerScript>;
  readonly #deployments = new Map<string, Promise<Deployment>>();

  /** @param folder a folder in the format of test/fixtures/dynamo-http/README.md */
  constructor(folder: string) {
    this.#folder = folder;
    this.rows = loadRows(folder);
    this.#scripts = new Map(
      this.rows.flatMap((row) => (row.worker_script === undefined ? [] : [[row.id, row.worker_script] as const])),
    );
  }

  /**
   * Plays one row; returns where the answer is neither as recorded nor as decided, nothing when it is.
   * @param applied gets the differences from the record that were decided
   */
  async play(row: RecordedRow, applied: string[] = []): Promise<readonly string[]> {
    const deployment = await this.#deploymentOf(row);
    const seenBefore = deployment.engine.seen.length;
    const answer = await send(deployment.port, requestOf(row), hangUpOf(row, deployment, seenBefore));
    const expected = expectationOf(row, applied);
    if (row.worker_cancelled === true) {
      await waitUntil(() => deployment.engine.seen.slice(seenBefore).some((seen) => seen.wasCancelled), {
        what: 'the worker was cancelled',
      });
    }
    const actual = { ...normalise(answer, row), worker: expected.worker && workerSaw(deployment, seenBefore) };
    // How many more frames came along before the client had left is chance.
    if (hasLeft(row) && Array.isArray(expected.frames)) actual.frames?.splice(expected.frames.length);
    return differencesOf(expected, actual);
  }

  /** What the product answers to a row, as it stands on the wire. */
  async answer(row: RecordedRow): Promise<Answer> {
    const deployment = await this.#deploymentOf(row);
    return send(deployment.port, requestOf(row), hangUpOf(row, deployment, deployment.engine.seen.length));
  }

  async close(): Promise<void> {
    for (const deployment of this.#deployments.values()) await (await deployment).close();
  }

  #deploymentOf(row: RecordedRow): Promise<Deployment> {
    const usesPaths = /^e1\.(a\.|chat\.a$|cmp\.a$)/.test(row.id);
    const name = usesPaths ? 'env1-paths' : row.id === 'size.46mb' ? 'limit-45' : row.server;
    let started = this.#deployments.get(name);
    if (started === undefined) {
      started = startDeployment(name, this.#folder, this.#scripts);
      this.#deployments.set(name, started);
    }
    return started;
  }
}

const hasLeft = (row: RecordedRow): boolean => row.connection === 'client closed';

/** A client leaves after the first frame, or once the worker works for it. */
function hangUpOf(row: RecordedRow, { engine }: Deployment, seenBefore: number): HangUp {
  if (!hasLeft(row)) return undefined;
  if (row.frames !== undefined) return { after: 'first-frame' };
  return { once: waitUntil(() => engine.seen.length > seenBefore, { what: 'the request at the worker' }) };
}

/** What the record says, as far as it is compared, after every difference that applies. */
function expectationOf(row: RecordedRow, applied: string[]): Expectation {
  const expected: Expectation = structuredClone({
    status: row.status,
    headers: { ...row.headers },
    ...(row.body === undefined ? {} : { body: row.body }),
    ...(row.text === undefined ? {} : { text: row.text }),
    ...(row.frames === undefined ? {} : { frames: [...row.frames] }),
  });
  expected.worker = structuredClone(row.worker_request)?.map((seen) => recordedWorkerRequest(seen, row));
  for (const difference of DIFFERENCES) {
    if (!difference.applies(row, expected)) continue;
    difference.rewrite(expected, row);
    applied.push(`${difference.authority}: ${difference.what}`);
  }
  return expected;
}

function recordedWorkerRequest(seen: Readonly<Record<string, unknown>>, row: RecordedRow): Record<string, unknown> {
  if (isMedia(row)) return { ...seen };
  return {
    prompt: isEmbeddings(row) ? anything : seen.prompt, // which the record does not show
    prompt_embeds: seen.prompt_embeds,
    multi_modal_data: seen.multi_modal_data,
    stop_conditions: { ...(seen.stop_conditions as object) },
    sampling_options: withoutSingleN({ ...(seen.sampling_options as object) }),
    output_options: { ...(seen.output_options as object) },
    routing: maskIds({ ...(seen.routing as object) }),
  };
}

/** One choice is what every engine makes unasked. */
function withoutSingleN({ n, ...rest }: { readonly n?: number }): object {
  return n === undefined || n === 1 ? rest : { n, ...rest };
}

const isMedia = (row: RecordedRow): boolean => row.group === 'images' || row.group === 'videos';
const isEmbeddings = (row: RecordedRow): boolean => row.group === 'embeddings';

function workerSaw(deployment: Deployment, from: number): Record<string, unknown>[] {
  return deployment.engine.seen.slice(from).map(({ request, prompt }) => {
    if (request.input.kind === 'text') {
      const { model: _model, ...body } = request.input.body;
      return body;
    }
    return {
      prompt: request.input.kind === 'tokens' && request.input.promptEmbeds !== undefined ? undefined : prompt,
      prompt_embeds: request.input.kind === 'tokens' ? request.input.promptEmbeds : undefined,
      multi_modal_data: request.multiModalData,
      stop_conditions: { ...request.stop },
      sampling_options: { ...request.sampling },
      output_options: { ...request.output },
      routing: maskIds({ ...request.routing }),
    };
  });
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
/** Ids that are a prefix and a UUID without its dashes; those of items go on with their place in a response. */
const PREFIXED_IDS = /\b(resp|msg|rs|fc|ctc|toolu)_[0-9a-f]{32,}\b/g;
const MASKED_NUMBERS = new Set([
  'created',
  'created_at',
  'completed_at',
  'instance_id',
  'prefill_worker_id',
  'decode_worker_id',
  'backend_instance_id',
  'request_received_ms',
  'prefill_wait_time_ms',
  'prefill_time_ms',
  'ttft_ms',
  'total_time_ms',
]);

/** Ids, times and worker ids as the record masks them. */
function maskIds(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(UUID, 'UUID').replaceAll(PREFIXED_IDS, '$1_ID');
  if (Array.isArray(value)) return value.map(maskIds);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, nested]) => [
      key,
      MASKED_NUMBERS.has(key) && nested !== null ? 0 : maskIds(nested),
    ]),
  );
}

function normalise(answer: Answer, row: RecordedRow): Record<string, unknown> & { readonly frames?: unknown[] } {
  const masked = maskIds(answer) as { frames?: { comment?: string }[]; body?: { instances?: unknown[] } };
  if (masked.body?.instances !== undefined) masked.body.instances = masked.body.instances.slice(0, 2);
  if (isBatch(row)) masked.frames?.sort(byPrompt);
  if (masked.frames !== undefined && IDLE_ROWS.test(row.id)) {
    masked.frames = masked.frames.filter((frame) => frame.comment !== '');
  }
  if (foldsChunks(row) && masked.frames !== undefined) return { ...masked, frames: [foldChat(masked.frames)] };
  return masked;
}
