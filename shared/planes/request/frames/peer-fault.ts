import { reasonOf } from '../../../errors/index.ts';

/** The other end is none of ours or is set otherwise: no connection to it will do better until an operator acts. */
export class PeerFault extends Error {
  override readonly name = 'PeerFault';
}

export const NO_PROOF =
  'it does not prove that it knows the STATOR_PLANE_TOKEN of this process: set the same at both ends';
export const TLS_SPOKEN =
  'it encrypts and this end does not: set the same STATOR_PLANE_TOKEN and STATOR_PLANE_TLS, or certificates, at both ends';
export const NO_GREETING =
  'it closes instead of greeting: do STATOR_PLANE_TOKEN, STATOR_PLANE_TLS and the certificates agree at both ends?';

/** `thrown` while reading what a worker sends in place of its proof. */
export function toPeerFault(thrown: unknown): PeerFault {
  return thrown instanceof PeerFault ? thrown : new PeerFault(NO_PROOF, { cause: thrown });
}

/** What a peer says about itself is shown only so far: it has proved nothing. */
const WORDS_MAX = 300;

/** `text` of a peer on one line, cut. */
export function quotePeer(text: unknown): string {
  return reasonOf(text)
    .slice(0, WORDS_MAX)
    .replace(/\p{Cc}+/gu, ' ');
}
