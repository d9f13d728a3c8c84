import { beforeAll } from 'vitest';
import { type Dynamo, useDynamo, useMeeting } from '../../support/dynamo/index.ts';
import { type Fleet, postJson, type SpawnedProcess, useFleet, waitUntil } from '../../support/index.ts';
import { type CellGroup, type FrontendKind, playedOf, type WorkerKind } from './cells.ts';

/** Name of the model of both products' mock workers. */
const MODEL = 'stator-mini';
/** About four seconds at the pace of both mock engines: a fault after its first tokens meets it. */
export const LONG = {
  model: MODEL,
  messages: [{ role: 'user', content: 'What if a machine stops?' }],
  max_tokens: 600,
  ignore_eos: true,
};
export const SHORT = { ...LONG, max_tokens: 12 };
/** Added to a request that streams. */
export const WITH_USAGE = { stream_options: { include_usage: true } };

const READY_MS_MAX = 60_000;

/** A worker process of either product. */
export interface CellWorker extends SpawnedProcess {
  /** URL of its status server. */
  readonly url: string;
}

/** A frontend of a group, which is up. */
export interface CellFrontend extends FrontendKind {
  readonly url: string;
}

/** The processes of a group of cells. */
export interface CellBed {
  /** Every frontend whose cell is played. */
  readonly frontends: readonly CellFrontend[];
  /** The workers that are up. */
  readonly workers: readonly CellWorker[];
  /** Starts one more worker. Resolves when every frontend lists it. */
  addWorker(): Promise<CellWorker>;
  /** Sends a worker SIGKILL or SIGTERM. Resolves when the process has ended and no frontend lists it. */
  removeWorker(worker: CellWorker, signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
  /** Returns the number of requests at all workers. */
  inflight(): Promise<number>;
}

/** Starts two workers, and every frontend before them. */
export function useCells(group: CellGroup): CellBed {
  const meeting = useMeeting(group.store, group.plane);
  const fleet = useFleet();
  const dynamo = useDynamo(meeting);
  const bed = new StartedBed(group.workers, { fleet, dynamo, meeting });
  beforeAll(() => bed.start(playedOf(group)), 180_000);
  return bed;
}

interface Products {
  readonly fleet: Fleet;
  readonly dynamo: Dynamo;
  readonly meeting: Readonly<Record<string, string>>;
}

class StartedBed implements CellBed {
  readonly frontends: CellFrontend[] = [];
  readonly workers: CellWorker[] = [];
  readonly #kind: WorkerKind;
  readonly #products: Products;

  constructor(kind: WorkerKind, products: Products) {
    this.#kind = kind;
    this.#products = products;
  }

  async start(frontends: readonly FrontendKind[]): Promise<void> {
    await Promise.all([this.addWorker(), this.addWorker()]);
    this.frontends.push(...(await Promise.all(frontends.map((kind) => this.#startFrontend(kind)))));
    await this.#untilServed();
  }

  async addWorker(): Promise<CellWorker> {
    const worker = await this.#startWorker();
    this.workers.push(worker);
    await this.#untilServed();
    return worker;
  }

  #startWorker(): Promise<CellWorker> {
    const { fleet, dynamo, meeting } = this.#products;
    if (this.#kind === 'Dynamo') return dynamo.mocker();
    return fleet.worker(this.#kind === 'Stator' ? [] : ['--wire=dynamo'], meeting);
  }

  async removeWorker(worker: CellWorker, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.workers.splice(this.workers.indexOf(worker), 1);
    worker.signal(signal);
    await worker.exited;
    await this.#untilServed();
  }

  async inflight(): Promise<number> {
    const counts = await Promise.all(this.workers.map(({ url }) => inflightAt(url)));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async #startFrontend(kind: FrontendKind): Promise<CellFrontend> {
    const args = [`--router-mode=${kind.mode}`, '--migration-limit=3'];
    const { fleet, dynamo, meeting } = this.#products;
    const { url } = kind.product === 'Stator' ? await fleet.frontend(args, meeting) : await dynamo.frontend(args);
    return { ...kind, url };
  }

  /** Waits until every frontend lists every worker, and answers. */
  async #untilServed(): Promise<void> {
    await Promise.all(this.frontends.map(({ url }) => this.#untilServes(url)));
  }

  async #untilServes(url: string): Promise<void> {
    const count = this.workers.length;
    const serves = async (): Promise<boolean> =>
      (await countInstances(url)) === count && (await postJson(`${url}/v1/chat/completions`, SHORT)).ok;
    await waitUntil(serves, { timeoutMs: READY_MS_MAX, pollMs: 200, what: `${count} workers of ${url}` });
  }
}

/** Returns the number of workers that a frontend lists in `/health`. */
async function countInstances(url: string): Promise<number> {
  const { instances = [] } = (await (await fetch(`${url}/health`)).json()) as {
    readonly instances?: readonly { readonly endpoint: string }[];
  };
  return instances.filter(({ endpoint }) => endpoint === 'generate').length;
}

/** Returns the number of requests at the worker with that status server; 0 if it is gone. */
async function inflightAt(url: string): Promise<number> {
  const response = await fetch(`${url}/metrics`).catch(() => undefined);
  const lines = (await response?.text())?.split('\n') ?? [];
  const generate = lines.filter(
    (line) => line.startsWith('dynamo_component_inflight_requests{') && line.includes('dynamo_endpoint="generate"'),
  );
  return generate.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
