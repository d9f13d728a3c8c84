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
  /** Card of the base model. */
  readonly card: ModelCard;
  readonly address: WorkerAddress;
  readonly instanceId: string;
  /** Address of the base model's files, which are also the adapter's. */
  readonly filesAt: Pick<ModelRecord, 'files_at'>;
  /** Cache of adapters from buckets. @default the worker refuses them */
  readonly cache?: AdapterCache | undefined;
}

interface Loaded {
  readonly record: ModelRecord;
  /** Location from which the engine loaded it. */
  readonly location: string;
  /** Whether its card is written, so that clients can name it. */
  isPublished: boolean;
}

/** Answer of an adapter route. */
export interface AdapterAnswer {
  readonly status: 'success';
  readonly message: string;
  readonly lora_name: string;
  readonly lora_id: number;
}

/** Bound of loaded adapters: more than any engine holds at once. */
const ADAPTERS_MAX = 1000;
const ID_MAX = 0x7fff_ffffn;

/**
 * The LoRA adapters of a worker. For clients each is a model of its own, with a card beside the base model's. Only one
 * change runs at a time. The card is written after the adapter is loaded, and removed before it is unloaded.
 */
export class Adapters {
  readonly #options: AdaptersOptions;
  readonly #loaded = new Map<string, Loaded>();
  readonly #changes = new Semaphore(1);

  constructor(options: AdaptersOptions) {
    this.#options = options;
  }

  /** Loads `name` from `uri`. If it is already loaded, writes at most its card, which an earlier call may lack. */
  load(name: string, uri: string, signal: AbortSignal): Promise<AdapterAnswer> {
    return this.#changes.run(async () => {
      const { engine, card, cache } = this.#options;
      const earlier = this.#loaded.get(name);
      if (earlier !== undefined) {
        await this.#publish(earlier);
        return answer(name, 'is loaded already');
      }
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
      const loaded = { record: this.#recordOf(name, uri), location, isPublished: false };
      this.#loaded.set(name, loaded);
      await this.#publish(loaded);
      return answer(name, 'is loaded');
    });
  }

  unload(name: string, signal: AbortSignal): Promise<AdapterAnswer> {
    return this.#changes.run(async () => {
      const { engine, registration, cache } = this.#options;
      const loaded = this.#loaded.get(name);
      if (loaded === undefined) throw workerError('NotFound', `no adapter \`${name}\` is loaded`);
      loaded.isPublished = false;
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

  /** Writes the card of an adapter, unless it is written. Rejects with the store's failure. */
  async #publish(loaded: Loaded): Promise<void> {
    if (loaded.isPublished) return;
    await this.#options.registration.add(loaded.record);
    loaded.isPublished = true;
  }

  /** Returns the location for the engine: a folder on its machine, or a repository that the engine fetches itself. */
  async #locate(uri: string, signal: AbortSignal): Promise<string> {
    const { cache } = this.#options;
    const [, scheme, rest = ''] = /^([a-z0-9]+):\/\/(.*)$/.exec(uri) ?? [];
    if (scheme === 'file' && rest.startsWith('/')) return decodeURIComponent(rest);
    if (scheme === 'hf' && rest !== '') return rest;
    if (scheme === 's3' && cache !== undefined) return cache.hold(uri, signal);
    throw refuse(`\`${uri}\` must be file:///folder, s3://bucket/prefix or hf://owner/name`, 'source.uri');
  }

  #recordOf(name: string, uri: string): ModelRecord {
    const { card, address, instanceId, filesAt } = this.#options;
    const slug = slugOf(name);
    const own = { display_name: name, slug, source_path: uri, lora: { name }, aliases: [], needs: NO_PEERS };
    const at = { ...address, instance_id: instanceId, ...filesAt };
    return { type: 'Model', ...at, model_suffix: slug, card: { ...card, ...own } };
  }
}

/**
 * Needs of an adapter's card. Prefill workers have no adapters, so the worker that answers also computes the prompt.
 */
const NO_PEERS: ModelCard['needs'] = [];

/** Returns a stable positive number for a name. */
function idOf(name: string): number {
  return Number(xxh3Hash(new TextEncoder().encode(name), 0n) & ID_MAX || 1n);
}

function answer(name: string, what: string): AdapterAnswer {
  return { status: 'success', message: `adapter ${name} ${what}`, lora_name: name, lora_id: idOf(name) };
}

function refuse(message: string, param: string) {
  return workerError('InvalidArgument', message, { param });
}
