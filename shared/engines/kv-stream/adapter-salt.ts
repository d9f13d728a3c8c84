/** What a salt begins with that names an adapter, too. */
const MARK = 'adapter:';

/** A request's scope, as far as an engine's salt tells it. */
export interface SaltedScope {
  readonly loraName: string | undefined;
  readonly cacheSalt: string | undefined;
}

/**
 * The salt of a request for an engine whose KV events name salts but no adapters: the adapter is a part of it. The engine keeps
 * the caches of adapters apart anyway, so that nothing is shared less. A salt of a client's that looks like one of ours is
 * wrapped as well.
 */
export function saltWithAdapter(loraName: string | undefined, cacheSalt: string | undefined): string | undefined {
  const salt = cacheSalt ?? '';
  if ((loraName ?? '') === '' && !salt.startsWith(MARK)) return salt === '' ? undefined : salt;
  return `${MARK}${encodeURIComponent(loraName ?? '')}:${salt}`;
}

/** What `saltWithAdapter` was told. */
export function scopeOfSalt(salt: string): SaltedScope {
  const end = salt.startsWith(MARK) ? salt.indexOf(':', MARK.length) : -1;
  if (end === -1) return { loraName: undefined, cacheSalt: salt };
  const [name, rest] = [salt.slice(MARK.length, end), salt.slice(end + 1)];
  try {
    return { loraName: decodeURIComponent(name) || undefined, cacheSalt: rest || undefined };
  } catch {
    return { loraName: undefined, cacheSalt: salt }; // another client of the engine's wrote it
  }
}
