import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** Hex digits of a worker id, and of the proof behind it: 96 bits, too many to guess over a network. */
const WORKER_DIGITS = 16;
const PROOF_DIGITS = 24;

/** Worker part of the name of a request that runs at several workers, or at none yet. */
const NO_WORKER = '0'.repeat(WORKER_DIGITS);

const NAME = new RegExp(`^([0-9a-f]{${WORKER_DIGITS}})([0-9a-f]{${PROOF_DIGITS}})$`);

/** Facts that an id reveals to an edge with the secret. */
export interface NamedRequest {
  /** Key as `requestKeyOf` returns it: 32 hex digits. */
  readonly key: string;
  /**
   * Worker at which the request began, in hex without leading zeros; undefined = every worker may have a part of it.
   */
  readonly workerId: string | undefined;
}

/**
 * Unforgeable names of running requests. A name is appended to the id of a response, so that any edge can cancel the
 * request, not only the one that serves it. It names the worker and proves that an edge of this deployment made it for
 * this request and this owner. No one else can make one, and no other owner can use it.
 *
 *     chatcmpl-<uuid>_<worker: 16 hex><proof: 24 hex>
 */
export class RequestNames {
  readonly #key: Buffer;
  readonly #previousKey: Buffer | undefined;

  /**
   * @param secret that all edges share
   * @param previous secret before the rotation: names that were made with it stay valid
   */
  constructor(secret: string, previous?: string) {
    this.#key = keyOf(secret);
    this.#previousKey = previous === undefined ? undefined : keyOf(previous);
  }

  /** Returns the suffix of a response id. @param workerId hex; undefined = none, or several */
  suffixOf({ key, workerId }: NamedRequest, owner: string): string {
    const worker = workerId?.padStart(WORKER_DIGITS, '0') ?? NO_WORKER;
    return worker + proofOf(this.#key, key, worker, owner);
  }

  /** Returns what a suffix names; undefined unless it was made here for that request and that owner. */
  read(key: string, suffix: string, owner: string): NamedRequest | undefined {
    const [, worker, proof] = NAME.exec(suffix) ?? [];
    if (worker === undefined || proof === undefined) return undefined;
    const isOf = (by: Buffer | undefined): boolean =>
      by !== undefined && timingSafeEqual(Buffer.from(proofOf(by, key, worker, owner)), Buffer.from(proof));
    if (!isOf(this.#key) && !isOf(this.#previousKey)) return undefined;
    return { key, workerId: worker === NO_WORKER ? undefined : worker.replace(/^0+/, '') };
  }
}

function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', 'stator request names', 32));
}

function proofOf(by: Buffer, key: string, worker: string, owner: string): string {
  return createHmac('sha256', by).update(`${key}/${worker}/${owner}`).digest('hex').slice(0, PROOF_DIGITS);
}
