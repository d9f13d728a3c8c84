import type { StateName } from '../types.ts';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const DIGITS = 16; // 2^53 has 16 digits

/** @throws RangeError for a name that not every store can keep */
export function assertObjectName(name: string): void {
  if (!NAME.test(name)) {
    throw new RangeError(
      `snapshot name "${name}": letters, digits, ".", "_" and "-", at most 200, a letter or digit first`,
    );
  }
}

/**
 * The name of a snapshot: ordered as fence and sequence are, so that whoever holds a later lease writes later names. No two
 * snapshots have the same one: a fence is used for one snapshot only.
 */
export function objectName(pointer: StateName, fence: number, sequence: number): string {
  return `${objectPrefix(pointer)}${digits(fence)}-${digits(sequence)}`;
}

/** What the names of all snapshots of one pointer start with. */
export function objectPrefix({ namespace, name }: StateName): string {
  const plain = (text: string): string => Buffer.from(text).toString('base64url');
  return `index.${plain(namespace)}.${plain(name)}.`;
}

function digits(value: number): string {
  return String(value).padStart(DIGITS, '0');
}
