import { ServeError } from '../../errors/index.ts';
import { type Caller, type Gate, type Grant, type KeyUse, type Need, shownSecrets } from '../grant.ts';
import { type Budget, KeyBudgets } from './budgets.ts';
import { KeyCache, type KeyCacheOptions } from './key-cache.ts';
import { isInForce, type KeyRecord, type ReadyKey, type Scope } from './key-record.ts';
import type { KeyStore } from './key-store.ts';
import { KEY_PREFIX, keyIdOf } from './key-text.ts';

/** Reason why a request was refused, for the counter of refusals. */
export type RefusalReason = 'no_key' | 'invalid' | 'expired' | 'scope' | 'route' | 'rate' | 'quota' | 'store';

export interface KeyGateOptions extends KeyCacheOptions {
  readonly store: KeyStore;
  readonly onRefused?: (reason: RefusalReason) => void;
  /** Called when tokens were used under keys of an owner. */
  readonly onSpent?: (owner: string, tokens: number) => void;
  /** Called when a request that generates was admitted. */
  readonly onAdmitted?: (owner: string) => void;
}

const SCOPES_OF: Readonly<Record<Need, readonly Scope[] | undefined>> = {
  generate: ['inference'],
  inference: ['inference'],
  key: undefined,
  metrics: ['metrics', 'admin'],
  admin: ['admin'],
};

/** A shown value that looks like a key. */
interface ShownKey {
  readonly text: string;
  readonly id: string;
}

/**
 * Admits requests by their API keys.
 *
 * @example
 * const grant = await gate.admit({ header: (name) => metadata.get(name)[0]?.toString() }, 'generate', call.getPath());
 */
export class KeyGate implements Gate {
  readonly #options: KeyGateOptions;
  readonly #cache: KeyCache;
  readonly #budgets: KeyBudgets;

  constructor(options: KeyGateOptions) {
    this.#options = options;
    this.#cache = new KeyCache(options);
    this.#budgets = new KeyBudgets(options.clock);
  }

  admit(caller: Pick<Caller, 'header'>, need: Need, path: string): Grant | Promise<Grant> {
    const shown = this.#shownKey(caller);
    const known = this.#cache.fresh(shown.id);
    if (known?.matches(shown.text, this.#options.clock.wallMs())) return this.#grant(known.record, need, path);
    return this.#read(shown, known, need, path);
  }

  useOf(key: KeyRecord): KeyUse {
    return this.#budgets.useOf(key);
  }

  close(): void {
    this.#options.store.close();
  }

  /** Returns the one of several shown values that looks like one of our keys. @throws ServeError `invalid_api_key` */
  #shownKey(caller: Pick<Caller, 'header'>): ShownKey {
    const shown = shownSecrets(caller);
    for (const text of shown) {
      const id = keyIdOf(text);
      if (id !== undefined) return { text, id };
    }
    if (shown.length > 0) throw this.#refuse('invalid', invalidKey());
    const message = 'No API key: send it as Authorization: Bearer, or as x-api-key';
    throw this.#refuse('no_key', new ServeError('invalid_api_key', message));
  }

  /** Admits a key whose record must be read first, or again because the key may have been rotated since. */
  async #read(shown: ShownKey, refused: ReadyKey | undefined, need: Need, path: string): Promise<Grant> {
    const ready = await this.#find(shown, refused);
    if (ready === undefined) throw this.#refuse('invalid', invalidKey(shown.id));
    return this.#grant(ready.record, need, path);
  }

  /** Returns undefined for a value that is not a key. @param refused record that is known to have another secret */
  async #find({ text, id }: ShownKey, refused: ReadyKey | undefined): Promise<ReadyKey | undefined> {
    const { clock } = this.#options;
    try {
      const known = await this.#cache.find(id);
      if (known === undefined || (known !== refused && known.matches(text, clock.wallMs()))) return known;
      const latest = await this.#cache.findAgain(id);
      return latest !== known && latest?.matches(text, clock.wallMs()) ? latest : undefined;
    } catch (thrown) {
      throw this.#refuse('store', thrown);
    }
  }

  #grant(record: KeyRecord, need: Need, path: string): Grant {
    if (!isInForce(record, this.#options.clock.wallMs())) throw this.#refuse('expired', invalidKey(record.id));
    const scopes = SCOPES_OF[need];
    if (scopes !== undefined && !record.scopes.some((scope) => scopes.includes(scope))) {
      const message = `Key ${record.id} has no scope ${scopes.join(' or ')}, which ${path} requires`;
      throw this.#refuse('scope', new ServeError('insufficient_permissions', message));
    }
    if (!allowsRoute(record.routes, path)) {
      const message = `Key ${record.id} may not use ${path}`;
      throw this.#refuse('route', new ServeError('insufficient_permissions', message));
    }
    const budget = this.#budgets.of(record);
    if (need === 'generate') this.#take(record, budget);
    const { owner, models, limits } = record;
    return {
      owner,
      key: record,
      allowsModel: (...names) => models === undefined || names.some((name) => models.includes(name)),
      headers: () => budget.headers(limits),
      spent: (tokens) => {
        budget.spend(tokens, limits);
        this.#options.onSpent?.(owner, tokens);
      },
    };
  }

  #take({ owner, limits }: KeyRecord, budget: Budget): void {
    try {
      budget.take(limits);
    } catch (thrown) {
      const isQuota = thrown instanceof ServeError && thrown.code === 'insufficient_quota';
      throw this.#refuse(isQuota ? 'quota' : 'rate', thrown);
    }
    this.#options.onAdmitted?.(owner);
  }

  #refuse<E>(reason: RefusalReason, error: E): E {
    this.#options.onRefused?.(reason);
    return error;
  }
}

/** The error does not repeat the shown value, except for the part of it that is not secret. */
function invalidKey(id?: string): ServeError {
  const shown = id === undefined ? '' : `: ${KEY_PREFIX}${id}-...`;
  return new ServeError('invalid_api_key', `Incorrect API key provided${shown}`);
}

function allowsRoute(routes: readonly string[] | undefined, path: string): boolean {
  if (routes === undefined) return true;
  return routes.some((route) => (route.endsWith('*') ? path.startsWith(route.slice(0, -1)) : path === route));
}
