/** Prefix of a salt that also names an adapter. */
const MARK = 'adapter:';

/** Scope of a request, as far as an engine's salt carries it. */
export interface SaltedScope {
  readonly loraName: string | undefined;
  readonly cacheSalt: string | undefined;
}

/**
 * Returns the salt of a request for an engine whose KV events name salts but not adapters: it includes the adapter. The
 * engine separates the caches of adapters anyway, so no sharing is lost. A client's salt that looks like such a salt is
 * wrapped too.
 */
export function saltWithAdapter(loraName: string | undefined, cacheSalt: string | undefined): string | undefined {
  const salt = cacheSalt ?? '';
  if ((loraName ?? '') === '' && !salt.startsWith(MARK)) return salt === '' ? undefined : salt;
  return `${MARK}${encodeURIComponent(loraName ?? '')}:${salt}`;
}

/** Returns the scope that `saltWithAdapter` encoded. */
export function scopeOfSalt(salt: string): SaltedScope {
  const end = salt.startsWith(MARK) ? salt.indexOf(':', MARK.length) : -1;
  if (end === -1) return { loraName: undefined, cacheSalt: salt };
  const [name, rest] = [salt.slice(MARK.length, end), salt.slice(end + 1)];
  try {
    return { loraName: decodeURIComponent(name) || undefined, cacheSalt: rest || undefined };
  } catch {
    return { loraName: undefined, cacheSalt: salt }; // another client of the engine wrote it
  }
}
