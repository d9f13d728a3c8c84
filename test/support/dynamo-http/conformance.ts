import type { WorkerScript } from '../scripted-engine.ts';
import { waitUntil } from '../wait-until.ts';
import { type Deployment, startDeployment } from './deployments.ts';
import { type Exchange, isCutShort, readAnswer } from './exchange.ts';
import { judge } from './judge.ts';
import { type HangUp, requestOf, send } from './raw-client.ts';
import { type Answer, loadRows, type RecordedRow } from './records.ts';

/** Plays recorded exchanges against the product: the real app over a socket, in front of scripted workers. */
export class Conformance {
  readonly rows: readonly RecordedRow[];
  readonly #folder: string;
  readonly #scripts: ReadonlyMap<string, WorkerScript>;
  readonly #deployments = new Map<string, Promise<Deployment>>();

  /**
   * @param folder a folder in the format of test/fixtures/dynamo-http/README.md
   */
  constructor(folder: string) {
    this.#folder = folder;
    this.rows = loadRows(folder);
    this.#scripts = new Map(
      this.rows.flatMap((row) => (row.worker_script === undefined ? [] : [[row.id, row.worker_script] as const])),
    );
  }

  /**
   * Plays one row. Returns the places where the answer is neither as recorded nor as decided.
   * @param applied collects the decided differences from the record that apply
   */
  async play(row: RecordedRow, applied: string[] = []): Promise<readonly string[]> {
    return judge(await this.exchange(row), applied);
  }

  /** Plays one row. Returns what came back and what the workers saw. Rows must be played in order, one at a time. */
  async exchange(row: RecordedRow): Promise<Exchange> {
    const { port, engine, instances, startedMs: serverStartedMs } = await this.#deploymentOf(row);
    const seenBefore = engine.seen.length;
    const startedMs = Date.now();
    const bytes = await send(port, requestOf(row), hangUpOf(row, engine, seenBefore));
    const endedMs = Date.now();
    const wasCancelled = (): boolean => engine.seen.slice(seenBefore).some((seen) => seen.wasCancelled);
    if (row.worker_cancelled === true) await waitUntil(wasCancelled, { what: 'the worker was cancelled' });
    const worker = engine.seen.slice(seenBefore).map(workerView);
    return { row, bytes, startedMs, endedMs, serverStartedMs, instances, worker, wasCancelled: wasCancelled() };
  }

  /** Returns the product's answer to a row, as on the wire. */
  async answer(row: RecordedRow): Promise<Answer> {
    const { port, engine } = await this.#deploymentOf(row);
    const bytes = await send(port, requestOf(row), hangUpOf(row, engine, engine.seen.length));
    return readAnswer({ row, bytes }).answer;
  }

  async close(): Promise<void> {
    for (const deployment of this.#deployments.values()) await (await deployment).close();
  }

  #deploymentOf(row: RecordedRow): Promise<Deployment> {
    const name = deploymentFor(row);
    let started = this.#deployments.get(name);
    if (started === undefined) {
      started = startDeployment(name, this.#folder, this.#scripts);
      this.#deployments.set(name, started);
    }
    return started;
  }
}

/** Returns the recorded server, or a variant with the state or the setting that the row tests. */
function deploymentFor({ server, request, status, worker_request: asked }: RecordedRow): string {
  if (server === 'mocker' && status === 529) return 'mocker-busy';
  if (server === 'mocker' && status === 503) return 'mocker-draining';
  if (server === 'env1' && request.path.startsWith('/a/')) return 'env1-paths';
  if (status === 413 && server === 'default' && asked === undefined) return 'limit-45';
  return server;
}

/** Decides when the client leaves: after the first frame, or once the worker works on its request. */
function hangUpOf(row: RecordedRow, engine: Deployment['engine'], seenBefore: number): HangUp {
  if (!isCutShort(row)) return undefined;
  if (row.frames !== undefined) return { after: 'first-frame' };
  return { once: waitUntil(() => engine.seen.length > seenBefore, { what: 'the request at the worker' }) };
}

/** Describes a request as a worker received it, in the terms of the record. */
function workerView({ request, prompt }: Deployment['engine']['seen'][number]): Record<string, unknown> {
  if (request.input.kind === 'text') {
    const { model: _model, ...body } = request.input.body;
    return body;
  }
  const embeds = request.input.kind === 'tokens' ? request.input.promptEmbeds : undefined;
  return {
    prompt: embeds === undefined ? prompt : undefined,
    prompt_embeds: embeds,
    multi_modal_data: request.multiModalData,
    stop_conditions: { ...request.stop },
    sampling_options: { ...request.sampling },
    output_options: { ...request.output },
    routing: { ...request.routing },
  };
}
