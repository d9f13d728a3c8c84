import { secretFields } from '../../fleet/index.ts';

/** Placeholder for a secret that was never rotated. */
const NONE = 'none';
/** End of a user name that a rotation has made. */
const SUFFIX = /-[0-9a-f]{8}$/;

/** Source of new secrets. */
export interface SecretSource {
  /** Returns random bytes in hex. */
  hex(bytes: number): string;
}

/**
 * Returns the text of a rotated secret in its present form: a text, JSON with `current` and `previous`, or a user of
 * NATS. The current secret becomes the previous one. For a plain text, Secrets Manager keeps the previous version.
 * @throws Error without any part of the secret
 */
export function rotatedText(text: string, source: SecretSource): string {
  const fields = secretFields(text);
  if (fields === undefined) return source.hex(32);
  if (isText(fields.current)) return JSON.stringify({ ...fields, previous: fields.current, current: source.hex(32) });
  if (isText(fields.username) && isText(fields.password)) {
    return JSON.stringify({
      ...fields,
      username: `${fields.username.replace(SUFFIX, '')}-${source.hex(4)}`, // both users are known at a time
      password: source.hex(32),
      previous_username: fields.username,
      previous_password: fields.password,
    });
  }
  throw new Error('it must be a text, JSON with current and previous, or a NATS user with username and password');
}

/** Whether a secret names the previous one; undefined = its form has no place for it. */
export function namesPrevious(text: string): boolean | undefined {
  const fields = secretFields(text);
  if (fields === undefined) return undefined;
  const { previous, previous_password: password } = fields;
  return [previous, password].some((each) => isText(each) && each !== NONE);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
