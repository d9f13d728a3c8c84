import { parseArgs } from 'node:util';
import {
  type IssuedKey,
  isInForce,
  isKeyId,
  issueKey,
  KEY_PREFIX,
  type KeyLimits,
  type KeyRecord,
  type KeyStore,
  keyIdOf,
  LIMIT_MAX,
  LIST_MAX,
  openKeyStore,
  revokeKey,
  rotateKey,
  SCOPES,
  type Scope,
  TEXT_MAX,
} from '../access/index.ts';
import type { Clock } from '../clock/index.ts';
import { type Environment, resolveConfig } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { UsageError } from './config.ts';
import { readTimeSpan } from './time-span.ts';

export const KEYS_HELP = `Usage: stator keys create --name NAME [limits] [--json]
       stator keys list [--json]
       stator keys rotate ID [--overlap TIME] [--json]
       stator keys revoke ID [--forget] [--json]

Manages the API keys of clients, in the table of STATOR_KEYS_TABLE or in --keys-file (STATOR_KEYS_FILE). The command
prints a key only once, when it creates it, and stores only its SHA-256. Frontends notice a change within
STATOR_KEY_CACHE_SECS (60 s).

  --name NAME                name for people
  --owner OWNER              owner; keys of one owner share stored responses (default: each key for itself)
  --scopes A,B               scopes, of ${SCOPES.join(', ')} (default: inference)
  --models A,B               models that the key may use (default: all)
  --routes A,B               paths that the key may use, such as /v1/chat/completions or /v1/* (default: all)
  --expires TIME             lifetime: 90d, 12h, 30m (default: no end)
  --requests-per-minute N    limit for each frontend process, like the next two (default: no limit)
  --tokens-per-minute N
  --tokens-per-day N
  --overlap TIME             how long the old key stays valid after a rotation (default: 24h)
  --forget                   also removes the key from the list
  --keys-file FILE           file of keys, if there is no table
  --json                     prints JSON
`;

const OVERLAP_DEFAULT = '24h';
/** Longest time that a user can give, a hundred years: a longer one means for ever. */
const TIME_MS_MAX = 100 * 365 * 86_400_000;

const OPTIONS = {
  name: { type: 'string' },
  owner: { type: 'string' },
  scopes: { type: 'string' },
  models: { type: 'string' },
  routes: { type: 'string' },
  expires: { type: 'string' },
  'requests-per-minute': { type: 'string' },
  'tokens-per-minute': { type: 'string' },
  'tokens-per-day': { type: 'string' },
  overlap: { type: 'string' },
  forget: { type: 'boolean' },
  'keys-file': { type: 'string' },
  json: { type: 'boolean' },
} as const;

/** Options of each verb, in addition to those of every verb. */
const VERBS = {
  create: [
    'name',
    'owner',
    'scopes',
    'models',
    'routes',
    'expires',
    'requests-per-minute',
    'tokens-per-minute',
    'tokens-per-day',
  ],
  list: [],
  rotate: ['overlap'],
  revoke: ['forget'],
} as const satisfies Readonly<Record<string, readonly (keyof typeof OPTIONS)[]>>;
type Verb = keyof typeof VERBS;

type Values = ReturnType<typeof parse>['values'];

/**
 * Runs `stator keys`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, ConfigError, or a KeyStoreError with one line
 */
export async function runKeys(argv: readonly string[], env: Environment, clock: Clock): Promise<string> {
  const { values, positionals } = parse(argv);
  const [verb, ...ids] = positionals;
  if (verb === undefined || !isVerb(verb)) {
    throw new UsageError(
      `stator keys${verb === undefined ? ' takes' : ` ${verb}: allowed`}: ${Object.keys(VERBS).join(', ')}`,
    );
  }
  checkOptions(verb, values);
  const work = workOf(verb, values, ids, clock);
  const store = await openStore(values['keys-file'], env);
  try {
    return await work(store);
  } finally {
    store.close();
  }
}

function isVerb(text: string): text is Verb {
  return Object.hasOwn(VERBS, text);
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], allowPositionals: true, options: OPTIONS });
  } catch (thrown) {
    throw new UsageError(reasonOf(thrown).split('.')[0]!);
  }
}

function checkOptions(verb: Verb, values: Values): void {
  const allowed: readonly string[] = [...VERBS[verb], 'keys-file', 'json'];
  const foreign = Object.keys(values).find((name) => !allowed.includes(name));
  if (foreign !== undefined) throw new UsageError(`stator keys ${verb} takes no --${foreign}`);
}

/** Returns the work of a verb. It reads all arguments, so that no store is opened for wrong ones. */
function workOf(
  verb: Verb,
  values: Values,
  ids: readonly string[],
  clock: Clock,
): (store: KeyStore) => Promise<string> {
  const isJson = values.json === true;
  switch (verb) {
    case 'create': {
      requireIds(verb, ids, 0);
      const wanted = readWanted(values);
      return async (store) => showIssued(await issueKey(store, clock, wanted), isJson, clock);
    }
    case 'list':
      requireIds(verb, ids, 0);
      return async (store) => {
        const records = await store.list();
        const nowMs = clock.wallMs();
        return isJson ? asJson(records.map((record) => toJson(record, nowMs))) : renderKeys(records, nowMs);
      };
    case 'rotate': {
      const id = readId(verb, ids);
      const overlapMs = readTime('overlap', values.overlap ?? OVERLAP_DEFAULT);
      return async (store) => showIssued(requireKey(id, await rotateKey(store, clock, id, overlapMs)), isJson, clock);
    }
    case 'revoke': {
      const id = readId(verb, ids);
      return async (store) => {
        const record = requireKey(id, await revokeKey(store, clock, id));
        if (values.forget === true) await store.delete(id);
        return isJson ? asJson(toJson(record, clock.wallMs())) : `revoked ${KEY_PREFIX}${id} (${record.name})\n`;
      };
    }
  }
}

function readWanted(values: Values) {
  const { name, owner } = values;
  if (name === undefined || !/^\P{C}+$/u.test(name) || name.length > TEXT_MAX) {
    throw new UsageError(`--name is needed: at most ${TEXT_MAX} printable characters`);
  }
  if (owner !== undefined && (!/^[\x21-\x7e]+$/.test(owner) || owner.length > TEXT_MAX)) {
    throw new UsageError(
      `--owner ${JSON.stringify(owner)}: allowed: at most ${TEXT_MAX} ASCII characters without blanks`,
    );
  }
  const lifeMs = values.expires === undefined ? undefined : readTime('expires', values.expires);
  const routes = readList('routes', values.routes);
  const wrong = routes?.find((route) => !route.startsWith('/'));
  if (wrong !== undefined) throw new UsageError(`--routes ${JSON.stringify(wrong)}: allowed: paths that begin with /`);
  const scopes = (readList('scopes', values.scopes) ?? ['inference']).map(readScope);
  return { name, owner, scopes, models: readList('models', values.models), routes, limits: readLimits(values), lifeMs };
}

function readScope(text: string): Scope {
  const scope = SCOPES.find((each) => each === text);
  if (scope === undefined) throw new UsageError(`--scopes ${JSON.stringify(text)}: allowed: ${SCOPES.join(', ')}`);
  return scope;
}

function readList(name: string, text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const list = [...new Set(text.split(',').map((each) => each.trim()))];
  const isGood = list.length <= LIST_MAX && list.every((each) => each !== '' && each.length <= TEXT_MAX);
  if (isGood) return list;
  throw new UsageError(`--${name}: allowed: at most ${LIST_MAX} names of at most ${TEXT_MAX} characters, with commas`);
}

function readLimits(values: Values): KeyLimits {
  const limits = {
    requestsPerMinute: readLimit('requests-per-minute', values['requests-per-minute']),
    tokensPerMinute: readLimit('tokens-per-minute', values['tokens-per-minute']),
    tokensPerDay: readLimit('tokens-per-day', values['tokens-per-day']),
  };
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined));
}

function readLimit(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const limit = /^\d{1,13}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new UsageError(`--${name} ${JSON.stringify(text)}: allowed: a whole number from 1 to ${LIMIT_MAX}`);
}

function readTime(name: string, text: string): number {
  const ms = readTimeSpan(text);
  if (ms >= 0 && ms <= TIME_MS_MAX) return ms;
  throw new UsageError(`--${name} ${JSON.stringify(text)}: allowed: a number and s, m, h or d, such as 90d`);
}

/** Returns the id in the argument, which may be an id, the prefix that lists show, or a whole key. */
function readId(verb: Verb, ids: readonly string[]): string {
  requireIds(verb, ids, 1);
  const [text = ''] = ids;
  const id = keyIdOf(text) ?? text.replace(KEY_PREFIX, '').replace(/-$/, '');
  if (!isKeyId(id))
    throw new UsageError(`${JSON.stringify(text.slice(0, 40))} is not the id of a key: stator keys list shows the ids`);
  return id;
}

function requireIds(verb: Verb, ids: readonly string[], count: 0 | 1): void {
  if (ids.length === count) return;
  throw new UsageError(`stator keys ${verb} takes ${count === 0 ? 'no id' : 'the id of one key'}`);
}

function requireKey<T>(id: string, found: T | undefined): T {
  if (found === undefined) throw new UsageError(`there is no key ${id}: stator keys list shows the existing ones`);
  return found;
}

/** @throws UsageError if neither the file nor the environment names a store */
async function openStore(file: string | undefined, env: Environment): Promise<KeyStore> {
  const argv = file === undefined ? [] : ['--keys-file', file];
  const { settings } = resolveConfig('frontend', argv, { ...env, STATOR_AUTH: undefined }, { allowMissing: true });
  // A file on the command line wins over a table in the environment.
  const store = await openKeyStore(file === undefined ? settings : { ...settings, keysTable: undefined });
  if (store !== undefined) return store;
  throw new UsageError('no store of API keys is named: set STATOR_KEYS_TABLE, or --keys-file FILE');
}

function showIssued({ text, record }: IssuedKey, isJson: boolean, clock: Clock): string {
  if (isJson) return asJson({ key: text, ...toJson(record, clock.wallMs()) });
  process.stderr.write(`Key ${record.name}, kept as ${KEY_PREFIX}${record.id}. Stator shows it only once:\n`);
  return `${text}\n`;
}

function asJson(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** Returns a record for programs, without its digests. */
function toJson(record: KeyRecord, nowMs: number): object {
  const { digest: _digest, previous, createdMs, expiresMs, revokedMs, ...rest } = record;
  const time = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : new Date(ms).toISOString();
  return {
    ...rest,
    prefix: `${KEY_PREFIX}${record.id}`,
    isInForce: isInForce(record, nowMs),
    created: time(createdMs),
    expires: time(expiresMs),
    revoked: time(revokedMs),
    previousUntil: time(previous?.untilMs),
  };
}

const HEADS = ['KEY', 'NAME', 'OWNER', 'SCOPES', 'STATE', 'LIMITS'] as const;

/** Returns the keys as a table for people, oldest first. */
export function renderKeys(records: readonly KeyRecord[], nowMs: number): string {
  if (records.length === 0) return 'There are no keys: stator keys create --name NAME creates one\n';
  const rows = [HEADS, ...records.map((record) => cellsOf(record, nowMs))];
  const widths = HEADS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) => `${row.map((cell, at) => cell.padEnd(widths[at]!)).join('  ')}`.trimEnd())
    .join('\n')
    .concat('\n');
}

function cellsOf(record: KeyRecord, nowMs: number): readonly string[] {
  const { id, name, owner, scopes } = record;
  return [`${KEY_PREFIX}${id}`, name, owner, scopes.join(','), stateOf(record, nowMs), limitsOf(record)];
}

function stateOf(record: KeyRecord, nowMs: number): string {
  const { revokedMs, expiresMs, previous } = record;
  if (revokedMs !== undefined) return `revoked ${day(revokedMs)}`;
  if (!isInForce(record, nowMs)) return `expired ${day(expiresMs ?? 0)}`;
  const rotated =
    previous !== undefined && previous.untilMs > nowMs ? `, the one before until ${minute(previous.untilMs)}` : '';
  return `in force${expiresMs === undefined ? '' : ` until ${day(expiresMs)}`}${rotated}`;
}

function limitsOf({ models, routes, limits }: KeyRecord): string {
  const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
  const parts = [
    models && `models ${models.join(',')}`,
    routes && `routes ${routes.join(',')}`,
    requestsPerMinute && `${requestsPerMinute} requests/min`,
    tokensPerMinute && `${tokensPerMinute} tokens/min`,
    tokensPerDay && `${tokensPerDay} tokens/day`,
  ];
  return parts.filter(Boolean).join('; ') || 'none';
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function minute(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}Z`;
}
