import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { reasonOf } from '../../../errors/index.ts';

/** Bytes of a nonce and of a proof. */
export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;
/** Most tokens that one end knows at the same time. */
const PROOFS_MAX = 2;

/** The side that proves. It is part of the proof, so that a side cannot send the other's proof back. */
type ProvingSide = 'caller' | 'worker';

/**
 * Data of one connection that both ends have seen. A proof covers it, and is therefore worthless on any other
 * connection.
 */
export interface Transcript {
  /** Payload of HELLO as sent, which contains the caller's nonce. */
  readonly hello: Uint8Array;
  readonly workerNonce: Uint8Array;
  /** Keying material at both ends of an encrypted channel; empty for a plain channel. */
  readonly channel: Uint8Array;
}

/**
 * The plane token (`STATOR_PLANE_TOKEN`) as keys for its purposes. A process neither keeps nor sends the token itself.
 */
export class PlaneSecret {
  /**
   * Name of the token, 16 hex digits. It differs from the names of other tokens and reveals nothing about the token.
   */
  readonly name: string;
  /** Key for TLS on connections that only the token encrypts. */
  readonly tlsKey: Buffer;
  readonly #proofKey: Buffer;

  constructor(token: string) {
    this.name = derive(token, 'stator plane 2: name').toString('hex', 0, 8);
    this.tlsKey = derive(token, 'stator plane 2: tls');
    this.#proofKey = derive(token, 'stator plane 2: proof');
  }

  /** Returns the proof for the other side that `side` knows the token. */
  prove(side: ProvingSide, { hello, workerNonce, channel }: Transcript): Buffer {
    const hmac = createHmac('sha256', this.#proofKey).update(`${side}\0`);
    for (const part of [hello, workerNonce, channel]) hmac.update(`${part.length}\0`).update(part);
    return hmac.digest();
  }

  /** Whether `given` is the proof of `side`. The comparison takes the same time wherever the proofs differ. */
  isProof(given: Uint8Array, side: ProvingSide, transcript: Transcript): boolean {
    return given.length === PROOF_BYTES && timingSafeEqual(given, this.prove(side, transcript));
  }
}

/**
 * Tokens of a process: the current one, and the previous one during a rotation (`STATOR_PLANE_TOKEN_PREVIOUS`).
 *
 * The ends of a connection use the newest token that both know. A worker proves all of its tokens. The caller answers
 * with one of those that the worker has proved. So processes may learn a new token in any order.
 */
export class PlaneSecrets {
  /** All tokens, the current one first. */
  readonly all: readonly [PlaneSecret, ...PlaneSecret[]];

  constructor(current: string, previous?: string) {
    const isOne = previous === undefined || previous === current;
    this.all = isOne ? [new PlaneSecret(current)] : [new PlaneSecret(current), new PlaneSecret(previous)];
  }

  get current(): PlaneSecret {
    return this.all[0];
  }

  /** Returns the first token that has one of these names. */
  named(names: readonly string[]): PlaneSecret | undefined {
    return this.all.find(({ name }) => names.includes(name));
  }

  /** Returns the proof to a caller that this worker knows each token, one proof after the other. */
  proofs(transcript: Transcript): Buffer {
    return Buffer.concat(this.all.map((secret) => secret.prove('worker', transcript)));
  }

  /** Returns the first token for which one of `proofs` is valid; undefined = no token fits. */
  provedBy(proofs: Uint8Array, transcript: Transcript): PlaneSecret | undefined {
    if (proofs.length === 0 || proofs.length > PROOFS_MAX * PROOF_BYTES || proofs.length % PROOF_BYTES !== 0)
      return undefined;
    const each = Array.from({ length: proofs.length / PROOF_BYTES }, (_, at) =>
      proofs.subarray(at * PROOF_BYTES, (at + 1) * PROOF_BYTES),
    );
    return this.all.find((secret) => each.some((proof) => secret.isProof(proof, 'worker', transcript)));
  }

  /** Whether a caller proves one of the tokens. */
  isProof(given: Uint8Array, transcript: Transcript): boolean {
    return this.all.some((secret) => secret.isProof(given, 'caller', transcript));
  }
}

function derive(token: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', purpose, 32));
}

/**
 * Thrown if the other end is not a Stator process or has other settings. Every further connection fails, too, until an
 * operator acts.
 */
export class PeerFault extends Error {
  override readonly name = 'PeerFault';
}

export const NO_PROOF =
  'it does not prove that it knows the STATOR_PLANE_TOKEN of this process: set the same at both ends';
export const TLS_SPOKEN =
  'it encrypts, but this end does not: set the same STATOR_PLANE_TOKEN and STATOR_PLANE_TLS, or certificates, at both ends';
export const NO_GREETING =
  'it closes instead of greeting: do STATOR_PLANE_TOKEN, STATOR_PLANE_TLS and the certificates agree at both ends?';

/** Explains `thrown`, an error while reading what a worker sends in place of its proof. */
export function toPeerFault(thrown: unknown): PeerFault {
  return thrown instanceof PeerFault ? thrown : new PeerFault(NO_PROOF, { cause: thrown });
}

/** Explains a failed handshake with `peer` to an operator; undefined = no setting would mend it. */
export function explainHandshake(error: Error, peer: 'caller' | 'worker'): string | undefined {
  const code = 'code' in error ? String(error.code) : '';
  if (/WRONG_VERSION_NUMBER|HTTP_REQUEST|UNEXPECTED_MESSAGE/.test(code)) {
    return `the ${peer} speaks plainly and this process encrypts: set the same STATOR_PLANE_TOKEN and STATOR_PLANE_TLS, or certificates, at both ends`;
  }
  if (/BAD_RECORD_MAC|DECRYPT/.test(code)) return `the ${peer} has another STATOR_PLANE_TOKEN`;
  if (/NO_SHARED_CIPHER|HANDSHAKE_FAILURE|PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS/.test(code)) {
    return `the ${peer} and this process do not encrypt alike: one has certificates (DYN_TCP_TLS_*), the other only STATOR_PLANE_TOKEN`;
  }
  return undefined;
}

/** Longest text of a peer that is shown to an operator. The peer may be anyone, because it has not proved the token. */
const WORDS_MAX = 300;

/** Returns `text` of a peer on one line, cut. */
export function quotePeer(text: unknown): string {
  return reasonOf(text)
    .slice(0, WORDS_MAX)
    .replace(/\p{Cc}+/gu, ' ');
}
