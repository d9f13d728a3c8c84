import type { ModelCard, ModelRecord } from '../discovery/index.ts';
import type { Engine } from '../engines/index.ts';
import { workerError } from '../errors/index.ts';
import { xxh3Hash } from '../tokens/index.ts';
import { slugOf } from './model-card.ts';
import type { WorkerAddress } from './options.ts';
import type { Registration } from './registration.ts';

export interface AdaptersOptions {
  readonly engine: Engine;
  readonly registration: Registration;
  /** Of the base model. */
  readonly card: ModelCard;
  readonly address: WorkerAddress;
  readonly instanceId: string;
}

/** What an adapter route answers (runtime-and-workers.md, section 5.4). */
export interface AdapterAnswer {
  readonly status: 'success';
  readonly message: string;
  readonly lora_name: string;
  readonly lora_id: number;
}

/** More adapters than any engine holds at once. */
const ADAPTERS_MAX = 1000;
const ID_MAX = 0x7fff_ffffn;

/**
 * The LoRA adapters of a worker. Each is a model of its own for clients: a card beside the base model's. One change at a
 * time; a card is written after its adapter is loaded and removed before it is unloaded.
 */
export class Adapters {
  readonly #options: AdaptersOptions;
  readonly #records = new Map<string, ModelRecord>();
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: AdaptersOptions) {
    this.#options = options;
  }

  /** Loads `name` from `uri`. Loading it again does nothing. */
  load(name: string, uri: string, signal: AbortSignal): Promise<AdapterAnswer> {
    return this.#next(async () => {
      const { engine, registration, card } = this.#options;
      if (this.#records.has(name)) return answer(name, 'is loaded already');
      if (name === card.display_name) throw refuse(`\`${name}\` is the base model's own name`, 'lora_name');
      if (this.#records.size >= ADAPTERS_MAX) throw refuse(`${ADAPTERS_MAX} adapters are loaded already`, 'lora_name');
      if (engine.loadLora === undefined) throw workerError('NotImplemented', 'this engine has no adapters');
      await engine.loadLora(name, locationOf(uri), signal);
      const record = this.#recordOf(name, uri);
      this.#records.set(name, record);
      await registration.add(record);
      return answer(name, 'is loaded');
    });
  }

  unload(name: string, signal: AbortSignal): Promise<AdapterAnswer> {
    return this.#next(async () => {
      const { engine, registration } = this.#options;
      const record = this.#records.get(name);
      if (record === undefined) throw workerError('NotFound', `no adapter \`${name}\` is loaded`);
      await registration.drop(record);
      await engine.unloadLora?.(name, signal);
      this.#records.delete(name);
      return answer(name, 'is unloaded');
    });
  }

  list(): { readonly status: 'success'; readonly loras: Readonly<Record<string, number>>; readonly count: number } {
    const names = [...this.#records.keys()];
    return {
      status: 'success',
      loras: Object.fromEntries(names.map((name) => [name, idOf(name)])),
      count: names.length,
    };
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#running.then(work);
    this.#running = result.catch(() => undefined); // told to the one who asked
    return result;
  }

  #recordOf(name: string, uri: string): ModelRecord {
    const { card, address, instanceId } = this.#options;
    const slug = slugOf(name);
    const own = { display_name: name, slug, source_path: uri, lora: { name }, aliases: [], needs: NO_PEERS };
    return { type: 'Model', ...address, instance_id: instanceId, model_suffix: slug, card: { ...card, ...own } };
  }
}

/** Prefill workers have no adapters: who answers computes the prompt as well. */
const NO_PEERS: ModelCard['needs'] = [];

/** A stable positive number for a name. */
function idOf(name: string): number {
  return Number(xxh3Hash(new TextEncoder().encode(name), 0n) & ID_MAX || 1n);
}

function answer(name: string, what: string): AdapterAnswer {
  return { status: 'success', message: `adapter ${name} ${what}`, lora_name: name, lora_id: idOf(name) };
}

/** What the engine is told: a folder on its machine, or a repository that it fetches itself. */
function locationOf(uri: string): string {
  const [, scheme, rest = ''] = /^([a-z0-9]+):\/\/(.*)$/.exec(uri) ?? [];
  if (scheme === 'file' && rest.startsWith('/')) return decodeURIComponent(rest);
  if (scheme === 'hf' && rest !== '') return rest;
  throw refuse(`\`${uri}\` is neither file:///folder nor hf://owner/name`, 'source.uri');
}

function refuse(message: string, param: string) {
  return workerError('InvalidArgument', message, { param });
}
