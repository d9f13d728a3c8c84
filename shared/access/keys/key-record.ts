import { timingSafeEqual } from 'node:crypto';
import { asWholeNumber, RecordReader, type UnknownRecord } from '../../records/index.ts';
import { digestOf, isKeyId, KEY_LENGTH } from './key-text.ts';

/** Purposes that a key may have. */
export const SCOPES = ['inference', 'admin', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** Limits of spending under a key; an absent limit means any number. */
export interface KeyLimits {
  readonly requestsPerMinute?: number;
  /** Tokens of prompts and answers. */
  readonly tokensPerMinute?: number;
  /** Tokens per day in UTC. */
  readonly tokensPerDay?: number;
}

/** A key as it is stored: everything except its secret. Times are Unix milliseconds. */
export interface KeyRecord {
  readonly id: string;
  /** Name for people; need not be unique. */
  readonly name: string;
  /** Owner of the answers and requests made under the key. Keys of one owner share them. */
  readonly owner: string;
  /** SHA-256 of the whole key, in hex. */
  readonly digest: string;
  /** Key before the last rotation, which stays valid for a while. */
  readonly previous?: { readonly digest: string; readonly untilMs: number };
  readonly scopes: readonly Scope[];
  /** Names of the models that the key may ask; absent = all. */
  readonly models?: readonly string[];
  /** Paths that the key may use, with `*` at the end for any rest; absent = all paths of its scopes. */
  readonly routes?: readonly string[];
  readonly limits: KeyLimits;
  readonly createdMs: number;
  readonly expiresMs?: number;
  readonly revokedMs?: number;
}

/** Longest name, owner, model or route, in characters. */
export const TEXT_MAX = 256;
/** Largest number of models or routes of one key. */
export const LIST_MAX = 100;
/** Largest limit. */
export const LIMIT_MAX = 1_000_000_000_000;

const LIMIT_NAMES = ['requestsPerMinute', 'tokensPerMinute', 'tokensPerDay'] as const satisfies (keyof KeyLimits)[];
const DIGEST_LENGTH = 64;
const DIGEST = new RegExp(`^[0-9a-f]{${DIGEST_LENGTH}}$`);
/** The name appears in log lines. */
const NAME = /^\P{C}+$/u;
/** The owner travels to workers as a header. */
const OWNER = /^[\x21-\x7e]+$/;

const READ = new RecordReader((what) => new Error(`malformed key record: ${what}`));

/** Reads a record that a process wrote. @throws Error that names the field */
export function readKeyRecord(value: unknown): KeyRecord {
  const fields = READ.record(value, 'key');
  const id = READ.text(fields.id, 'id', TEXT_MAX);
  if (!isKeyId(id)) throw READ.refuse(id, 'id', 'the id of a key');
  const previous = fields.previous === undefined ? undefined : READ.record(fields.previous, 'previous');
  return {
    id,
    name: readName(fields.name, 'name', NAME, 'a printable text'),
    owner: readName(fields.owner, 'owner', OWNER, 'a text of printable ASCII without blanks'),
    digest: readDigest(fields.digest, 'digest'),
    ...(previous && {
      previous: {
        digest: readDigest(previous.digest, 'previous.digest'),
        untilMs: READ.wholeNumber(previous.untilMs, 'previous.untilMs'),
      },
    }),
    scopes: READ.list(fields.scopes, 'scopes', SCOPES.length).map(readScope),
    ...optional('models', fields.models, readTexts),
    ...optional('routes', fields.routes, readTexts),
    limits: readLimits(READ.record(fields.limits, 'limits')),
    createdMs: READ.wholeNumber(fields.createdMs, 'createdMs'),
    ...optional('expiresMs', fields.expiresMs, (time, name) => READ.wholeNumber(time, name)),
    ...optional('revokedMs', fields.revokedMs, (time, name) => READ.wholeNumber(time, name)),
  };
}

function optional<Name extends string, T>(
  name: Name,
  value: unknown,
  read: (value: unknown, name: string) => T,
): { readonly [K in Name]?: T } {
  return value === undefined ? {} : ({ [name]: read(value, name) } as { [K in Name]: T });
}

function readName(value: unknown, name: string, pattern: RegExp, allowed: string): string {
  const text = READ.text(value, name, TEXT_MAX);
  if (!pattern.test(text)) throw READ.refuse(text, name, allowed);
  return text;
}

function readDigest(value: unknown, name: string): string {
  const text = READ.text(value, name);
  if (!DIGEST.test(text)) throw READ.refuse(text, name, '64 hex digits');
  return text;
}

function readScope(value: unknown): Scope {
  const scope = SCOPES.find((each) => each === value);
  if (scope === undefined) throw READ.refuse(value, 'scopes', `of ${SCOPES.join(', ')}`);
  return scope;
}

function readTexts(value: unknown, name: string): readonly string[] {
  return READ.list(value, name, LIST_MAX).map((each) => READ.text(each, name, TEXT_MAX));
}

function readLimits(fields: UnknownRecord): KeyLimits {
  const limits: { -readonly [K in keyof KeyLimits]: KeyLimits[K] } = {};
  for (const name of LIMIT_NAMES) {
    if (fields[name] === undefined) continue;
    const limit = asWholeNumber(fields[name], LIMIT_MAX);
    if (limit === undefined || limit === 0) throw READ.refuse(fields[name], name, `from 1 to ${LIMIT_MAX}`);
    limits[name] = limit;
  }
  return limits;
}

/** A value that no key matches, because it is not a digest. */
const NO_DIGEST = Buffer.alloc(DIGEST_LENGTH);
/** Buffer for the key that is being compared; no other code runs meanwhile. */
const shown = Buffer.alloc(KEY_LENGTH);

/** A record that is ready for keys to be compared with it. */
export class ReadyKey {
  readonly record: KeyRecord;
  readonly #digest: Buffer;
  readonly #previous: Buffer;
  /**
   * The key that matched last, which spares its next request the hash. Kept in memory only as long as a request with
   * it.
   */
  #matched: Buffer | undefined;
  #matchedUntilMs = 0;

  constructor(record: KeyRecord) {
    this.record = record;
    this.#digest = Buffer.from(record.digest, 'latin1');
    this.#previous = record.previous === undefined ? NO_DIGEST : Buffer.from(record.previous.digest, 'latin1');
  }

  /**
   * Whether a text is the key of the record. The compared values have one length and are compared to the end, so the
   * time depends on nothing that was shown, except on whether it is the key.
   * @param text in which `keyIdOf` has found an id
   */
  matches(text: string, nowMs: number): boolean {
    shown.write(text, 'latin1');
    if (this.#matched !== undefined && timingSafeEqual(this.#matched, shown)) return nowMs < this.#matchedUntilMs;
    const digest = Buffer.from(digestOf(text), 'latin1');
    const isCurrent = timingSafeEqual(this.#digest, digest);
    const isPrevious = timingSafeEqual(this.#previous, digest);
    if (!isCurrent && !isPrevious) return false;
    this.#matched = Buffer.from(shown);
    this.#matchedUntilMs = isCurrent ? Number.POSITIVE_INFINITY : (this.record.previous?.untilMs ?? 0);
    return nowMs < this.#matchedUntilMs;
  }
}

/** Whether a key may be used at all at `nowMs`. */
export function isInForce({ revokedMs, expiresMs }: KeyRecord, nowMs: number): boolean {
  return (revokedMs === undefined || nowMs < revokedMs) && (expiresMs === undefined || nowMs < expiresMs);
}
