import { type EtcdHeader, STATUS } from '../../grpc/index.ts';
import { EtcdFailure } from './etcd-errors.ts';

/** Point of a history that was reached when a question was sent. */
interface Reached {
  readonly losses: number;
  readonly revision: bigint;
  readonly term: bigint;
}

/**
 * Watches that all answers come from one cluster, and from one history of it. A cluster that was made anew, or restored
 * from a backup, counts its revisions or elections from a lower number: keys are then gone that no process removed.
 */
export class StoreHistory {
  readonly #members: number;
  #cluster: bigint | undefined;
  #reached: Reached = { losses: 0, revision: 0n, term: 0n };
  /** Members, by index, whose last answer came from another cluster. */
  readonly #strangers = new Set<number>();

  /** @param members number of endpoints */
  constructor(members: number) {
    this.#members = members;
  }

  /** Number of histories that were lost so far. */
  get losses(): number {
    return this.#reached.losses;
  }

  /** Point that every later answer has passed. */
  get reached(): Reached {
    return this.#reached;
  }

  /**
   * Notes the header of an answer of a member. If all members are of another cluster, that cluster is the one from now
   * on.
   * @param member index of its endpoint
   * @param passed point that the answer must have passed. Absent for what a member tells by itself, which may be old.
   * @throws EtcdFailure if the member is of another cluster than the others
   */
  note(member: number, header: EtcdHeader | undefined, passed?: Reached): void {
    if (header === undefined) return;
    const { clusterId, revision, raftTerm } = header;
    this.#cluster ??= clusterId;
    if (clusterId !== this.#cluster) this.#meetStranger(member, header);
    this.#strangers.delete(member);
    const { losses, revision: reached, term } = this.#reached;
    const isLost = passed?.losses === losses && (revision < passed.revision || raftTerm < passed.term);
    if (isLost) this.#begin(header);
    else this.#reached = { losses, revision: later(revision, reached), term: later(raftTerm, term) };
  }

  #meetStranger(member: number, header: EtcdHeader): void {
    this.#strangers.add(member);
    if (this.#strangers.size < this.#members) {
      const [found, known] = [header.clusterId, this.#cluster].map((id) => id?.toString(16));
      throw new EtcdFailure(STATUS.UNAVAILABLE, `the member is of cluster ${found}, the others are of ${known}`);
    }
    this.#begin(header);
  }

  #begin({ clusterId, revision, raftTerm }: EtcdHeader): void {
    this.#cluster = clusterId;
    this.#reached = { losses: this.#reached.losses + 1, revision, term: raftTerm };
    this.#strangers.clear();
  }
}

function later(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
