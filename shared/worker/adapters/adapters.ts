import { Semaphore } from '../../concurrency/index.ts';
import type { ModelCard, ModelRecord } from '../../discovery/index.ts';
import type { Engine } from '../../engines/index.ts';
import { workerError } from '../../errors/index.ts';
import { xxh3Hash } from '../../tokens/index.ts';
import { slugOf } from '../model-card.ts';
import type { WorkerAddress } from '../options.ts';
import type { Registration } from '../registration.ts';
import type { AdapterCache } from './adapter-cache.ts';

export interface AdaptersOptions {
  readonly engine: Engine;
  readonly registration: Registration;
  /** Of the base model. */
  readonly card: ModelCard;
  readonly address: WorkerAddress;
  readonly instanceId: string;
  /** Where the files of the base model are fetched, which are the adapter's too. */
  readonly filesAt: Pick<ModelRecord, 'files_at'>;
  /** Where adapters out of buckets are kept. @default those are refused */
  readonly cache?: AdapterCache | undefined;
}

interface Loaded {
  readonly record: ModelRecord;
  /** Where the engine has found it. */
  readonly location: string;
}

/** What an adapter route answers. */
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
  readonly #loaded = new Map<string, Loaded>();
  readonly #changes = new Semaphore(1);

  constructor(options: AdaptersOptions) {
    this.#options = options;
  }

  /** Loads `name` from `uri`. Loading it again does nothing. */
  load(name: string, uri: string, signal: AbortSignal): Promise<AdapterAnswer> {
    return this.#changes.run(async () => {
      const { engine, registration, card, cache } = this.#options;
      if (this.#loaded.has(name)) return answer(name, 'is loaded already');
      if (name === card.display_name) throw refuse(`\`${name}\` is the base model's own name`, 'lora_name');
      if (this.#loaded.size >= ADAPTERS_MAX) throw refuse(`${ADAPTERS_MAX} adapters are loaded already`, 'lora_name');
      if (engine.loadLora === undefined) throw workerError('NotImplemented', 'this engine has no adapters');
      const location = await this.#locate(uri, signal);
      try {
        await engine.loadLora(name, location, signal);
      } catch (thrown) {
        cache?.release(location);
        throw thrown;
      }
      const record = this.#recordOf(name, uri);
      this.#loaded.set(name, { record, location });
      await registration.add(record);
      return answer(name, 'is loaded');
    });
  }

  unload(name: string, signal: AbortSignal): Promise<AdapterAnswer> {
    return this.#changes.run(async () => {
      const { engine, registration, cache } = this.#options;
      const loaded = this.#loaded.get(name);
      if (loaded === undefined) throw workerError('NotFound', `no adapter \`${name}\` is loaded`);
      await registration.drop(loaded.record);
      await engine.unloadLora?.(name, signal);
      this.#loaded.delete(name);
      cache?.release(loaded.location);
      return answer(name, 'is unloaded');
    });
  }

  list(): { readonly status: 'success'; readonly loras: Readonly<Record<string, number>>; readonly count: number } {
    const names = [...this.#loaded.keys()];
    return {
      status: 'success',
      loras: Object.fromEntries(names.map((name) => [name, idOf(name)])),
      count: names.length,
    };
  }

  /** What the engine is told: a folder on its machine, or a repository that it fetches itself. */
  async #locate(uri: string, signal: AbortSignal): Promise<string> {
    const { cache } = this.#options;
    const [, scheme, rest = ''] = /^([a-z0-9]+):\/\/(.*)$/.exec(uri) ?? [];
    if (scheme === 'file' && rest.startsWith('/')) return decodeURIComponent(rest);
    if (scheme === 'hf' && rest !== '') return rest;
    if (scheme === 's3' && cache !== undefined) return cache.hold(uri, signal);
    throw refuse(`\`${uri}\` is none of file:///folder, s3://bucket/prefix and hf://owner/name`, 'source.uri');
  }

  #recordOf(name: string, uri: string): ModelRecord {
    const { card, address, instanceId, filesAt } = this.#options;
    const slug = slugOf(name);
    const own = { display_name: name, slug, source_path: uri, lora: { name }, aliases: [], needs: NO_PEERS };
    const at = { ...address, instance_id: instanceId, ...filesAt };
    return { type: 'Model', ...at, model_suffix: slug, card: { ...card, ...own } };
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

function refuse(message: string, param: string) {
  return workerError('InvalidArgument', message, { param });
}
