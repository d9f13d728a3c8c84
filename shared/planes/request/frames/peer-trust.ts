import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { reasonOf } from '../../../errors/index.ts';

/** Bytes of a nonce and of a proof. */
export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;
/** Tokens that one end may know at a time. */
const PROOFS_MAX = 2;

/** Who proves. Part of what is proved, so that no side can hand back the other's proof. */
type ProvingSide = 'caller' | 'worker';

/** What both ends of one connection have seen of it. A proof is of this alone, and worthless on any other connection. */
export interface Transcript {
  /** Payload of HELLO as it was sent; holds the caller's nonce. */
  readonly hello: Uint8Array;
  readonly workerNonce: Uint8Array;
  /** What an encrypted channel has of its own at both ends; empty where there is none. */
  readonly channel: Uint8Array;
}

/** The plane token (`STATOR_PLANE_TOKEN`) as keys of what it is for. The token itself is not kept, and never sent. */
export class PlaneSecret {
  /** Tells it from another token, and nothing of what it is: 16 hex digits. */
  readonly name: string;
  /** Key of TLS where the token alone encrypts. */
  readonly tlsKey: Buffer;
  readonly #proofKey: Buffer;

  constructor(token: string) {
    this.name = derive(token, 'stator plane 2: name').toString('hex', 0, 8);
    this.tlsKey = derive(token, 'stator plane 2: tls');
    this.#proofKey = derive(token, 'stator plane 2: proof');
  }

  /** What shows the other side that `side` knows the token. */
  prove(side: ProvingSide, { hello, workerNonce, channel }: Transcript): Buffer {
    const hmac = createHmac('sha256', this.#proofKey).update(`${side}\0`);
    for (const part of [hello, workerNonce, channel]) hmac.update(`${part.length}\0`).update(part);
    return hmac.digest();
  }

  /** Whether `given` is the proof of `side`; takes the same time wherever it is wrong. */
  isProof(given: Uint8Array, side: ProvingSide, transcript: Transcript): boolean {
    return given.length === PROOF_BYTES && timingSafeEqual(given, this.prove(side, transcript));
  }
}

/**
 * The tokens of a process: its own, and the one before while tokens are rotated (`STATOR_PLANE_TOKEN_PREVIOUS`).
 *
 * The ends of a connection prove the newest token that both know: a worker proves all of its own, and a caller answers by one that the
 * worker has shown to know. So it does not matter in which order processes learn of a new token.
 */
export class PlaneSecrets {
  /** The current one first. */
  readonly all: readonly [PlaneSecret, ...PlaneSecret[]];

  constructor(current: string, previous?: string) {
    const isOne = previous === undefined || previous === current;
    this.all = isOne ? [new PlaneSecret(current)] : [new PlaneSecret(current), new PlaneSecret(previous)];
  }

  get current(): PlaneSecret {
    return this.all[0];
  }

  /** The first of them that has one of these names. */
  named(names: readonly string[]): PlaneSecret | undefined {
    return this.all.find(({ name }) => names.includes(name));
  }

  /** What shows a caller that this worker knows each of them, one proof behind the other. */
  proofs(transcript: Transcript): Buffer {
    return Buffer.concat(this.all.map((secret) => secret.prove('worker', transcript)));
  }

  /** The first of them that one of `proofs` is of; undefined = the worker knows none. */
  provedBy(proofs: Uint8Array, transcript: Transcript): PlaneSecret | undefined {
    if (proofs.length === 0 || proofs.length > PROOFS_MAX * PROOF_BYTES || proofs.length % PROOF_BYTES !== 0)
      return undefined;
    const each = Array.from({ length: proofs.length / PROOF_BYTES }, (_, at) =>
      proofs.subarray(at * PROOF_BYTES, (at + 1) * PROOF_BYTES),
    );
    return this.all.find((secret) => each.some((proof) => secret.isProof(proof, 'worker', transcript)));
  }

  /** Whether a caller proves any of them. */
  isProof(given: Uint8Array, transcript: Transcript): boolean {
    return this.all.some((secret) => secret.isProof(given, 'caller', transcript));
  }
}

function derive(token: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', purpose, 32));
}

/** The other end is none of ours or is set otherwise: no connection to it will do better until an operator acts. */
export class PeerFault extends Error {
  override readonly name = 'PeerFault';
}

export const NO_PROOF =
  'it does not prove that it knows the STATOR_PLANE_TOKEN of this process: set the same at both ends';
export const TLS_SPOKEN =
  'it encrypts, but this end does not: set the same STATOR_PLANE_TOKEN and STATOR_PLANE_TLS, or certificates, at both ends';
export const NO_GREETING =
  'it closes instead of greeting: do STATOR_PLANE_TOKEN, STATOR_PLANE_TLS and the certificates agree at both ends?';

/** `thrown` while reading what a worker sends in place of its proof. */
export function toPeerFault(thrown: unknown): PeerFault {
  return thrown instanceof PeerFault ? thrown : new PeerFault(NO_PROOF, { cause: thrown });
}

/** What a failed handshake with `peer` says to an operator; undefined = nothing that a setting would mend. */
export function explainHandshake(error: Error, peer: 'caller' | 'worker'): string | undefined {
  const code = 'code' in error ? String(error.code) : '';
  if (/WRONG_VERSION_NUMBER|HTTP_REQUEST|UNEXPECTED_MESSAGE/.test(code)) {
    return `the ${peer} speaks plainly and this process encrypts: set the same STATOR_PLANE_TOKEN and STATOR_PLANE_TLS, or certificates, at both ends`;
  }
  if (/BAD_RECORD_MAC|DECRYPT/.test(code)) return `the ${peer} has another STATOR_PLANE_TOKEN`;
  if (/NO_SHARED_CIPHER|HANDSHAKE_FAILURE|PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS/.test(code)) {
    return `the ${peer} and this process do not encrypt alike: one has certificates (DYN_TCP_TLS_*), the other STATOR_PLANE_TOKEN alone`;
  }
  return undefined;
}

/** What a peer says about itself is shown only so far: it has proved nothing. */
const WORDS_MAX = 300;

/** `text` of a peer on one line, cut. */
export function quotePeer(text: unknown): string {
  return reasonOf(text)
    .slice(0, WORDS_MAX)
    .replace(/\p{Cc}+/gu, ' ');
}
