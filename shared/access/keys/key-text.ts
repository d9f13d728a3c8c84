import crypto, { createHash, randomBytes } from 'node:crypto';

/** Before every key, so that scanners of code and logs find one that was left there. */
export const KEY_PREFIX = 'sk-stator-';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_LENGTH = 12;
/** 43 characters of 62 are 256 random bits. */
const SECRET_LENGTH = 43;
/** Largest byte that maps to the alphabet without favouring its first letters. */
const BYTE_MAX = 256 - (256 % ALPHABET.length);

const KEY = new RegExp(`^${KEY_PREFIX}([0-9A-Za-z]{${ID_LENGTH}})-[0-9A-Za-z]{${SECRET_LENGTH}}$`);
const ID = new RegExp(`^[0-9A-Za-z]{${ID_LENGTH}}$`);

/** Characters of a key; whatever is longer or shorter is none. */
export const KEY_LENGTH: number = KEY_PREFIX.length + ID_LENGTH + 1 + SECRET_LENGTH;

/** Random bytes for secrets. */
export type SecretBytes = (count: number) => Uint8Array;

/** A new key: `sk-stator-<id>-<secret>`. The id finds its record and may be shown; the rest is told once. */
export function newKeyText(id: string, bytes: SecretBytes = randomBytes): string {
  return `${KEY_PREFIX}${id}-${letters(SECRET_LENGTH, bytes)}`;
}

export function newKeyId(bytes: SecretBytes = randomBytes): string {
  return letters(ID_LENGTH, bytes);
}

/** The id in a key; undefined for what is no key. */
export function keyIdOf(text: string): string | undefined {
  return text.length === KEY_LENGTH ? KEY.exec(text)?.[1] : undefined;
}

export function isKeyId(text: string): boolean {
  return ID.test(text);
}

/** What is kept of a key: SHA-256 in hex. A secret of 256 random bits needs no slow hash: there is nothing to guess. */
export function digestOf(text: string): string {
  return sha256(text);
}

/** One call where Node has it (from 20.12 on): a third of the time. */
const sha256: (text: string) => string =
  typeof crypto.hash === 'function'
    ? (text) => crypto.hash('sha256', text)
    : (text) => createHash('sha256').update(text).digest('hex');

function letters(count: number, bytes: SecretBytes): string {
  let text = '';
  while (text.length < count) {
    for (const byte of bytes(2 * count)) {
      if (byte < BYTE_MAX && text.length < count) text += ALPHABET[byte % ALPHABET.length];
    }
  }
  return text;
}
