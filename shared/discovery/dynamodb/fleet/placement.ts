import type { Member } from './members.ts';
import { cardSumsOf } from './record-bytes.ts';

/** Fill of a cell, as a factor of the mean, at which the processes of one model continue in the next cell. */
const FULL = 1.5;

interface Place {
  readonly cell: number;
  readonly group: string;
}

/**
 * Places each process in a cell of records. The processes of one model are together, so that a process which serves the
 * model reads few cells. A process stays in its first cell: if it moved, a reader that sees only one of the two changes
 * would miss it.
 */
export class Placement {
  readonly #places = new Map<string, Place>(); // by lease id; those of the fleet
  readonly #bytes: number[];
  readonly #groupOf: (member: Pick<Member, 'block'>) => string;

  /**
   * @param nameOf returns the name of a card's model, which decides only the group
   */
  constructor(count: number, nameOf: (sum: string) => string | undefined) {
    this.#bytes = Array.from({ length: count }, () => 0);
    this.#groupOf = ({ block }) => {
      const names = cardSumsOf(block).map((sum) => nameOf(sum) ?? sum);
      return names.length === 0 ? '' : names.reduce((least, name) => (name < least ? name : least));
    };
  }

  /** Members of each cell, in the order of `members`. */
  place(members: readonly Member[]): readonly (readonly Member[])[] {
    if (this.#places.size === 0) this.#fill(members);
    else this.#follow(members);
    const byCell = this.#bytes.map((): Member[] => []);
    for (const member of members) byCell[this.#places.get(member.leaseId)?.cell ?? 0]?.push(member);
    return byCell;
  }

  /** Puts one group after the other into cells of the same size. */
  #fill(members: readonly Member[]): void {
    const grouped = members.map((member) => ({ member, group: this.#groupOf(member) }));
    grouped.sort((one, other) => (one.group < other.group ? -1 : one.group > other.group ? 1 : 0));
    const total = members.reduce((sum, { block }) => sum + block.length, 0);
    let before = 0;
    for (const { member, group } of grouped) {
      const cell = total === 0 ? 0 : Math.floor((before / total) * this.#bytes.length);
      this.#places.set(member.leaseId, { cell: Math.min(cell, this.#bytes.length - 1), group });
      before += member.block.length;
    }
  }

  #follow(members: readonly Member[]): void {
    const present = new Set(members.map(({ leaseId }) => leaseId));
    for (const leaseId of [...this.#places.keys()]) if (!present.has(leaseId)) this.#places.delete(leaseId);
    this.#bytes.fill(0);
    const ofGroup = new Map<string, Set<number>>();
    const added: Member[] = [];
    for (const member of members) {
      const place = this.#places.get(member.leaseId);
      if (place === undefined) added.push(member);
      else this.#fillCell(member, place, ofGroup);
    }
    for (const member of added) {
      const group = this.#groupOf(member);
      const place = { cell: this.#roomFor(ofGroup.get(group) ?? []), group };
      this.#places.set(member.leaseId, place);
      this.#fillCell(member, place, ofGroup);
    }
  }

  #fillCell(member: Member, { cell, group }: Place, ofGroup: Map<string, Set<number>>): void {
    this.#bytes[cell] = (this.#bytes[cell] ?? 0) + member.block.length;
    const cells = ofGroup.get(group);
    if (cells === undefined) ofGroup.set(group, new Set([cell]));
    else cells.add(cell);
  }

  /** Returns the emptiest cell of its group, or of all cells if those are full. */
  #roomFor(ofGroup: Iterable<number>): number {
    const mean = this.#bytes.reduce((sum, bytes) => sum + bytes, 0) / this.#bytes.length;
    const own = this.#emptiest(ofGroup);
    if (own !== undefined && (this.#bytes[own] ?? 0) <= FULL * mean) return own;
    return this.#emptiest(this.#bytes.keys()) ?? 0;
  }

  #emptiest(cells: Iterable<number>): number | undefined {
    let emptiest: number | undefined;
    for (const cell of cells) {
      if (emptiest === undefined || (this.#bytes[cell] ?? 0) < (this.#bytes[emptiest] ?? 0)) emptiest = cell;
    }
    return emptiest;
  }
}
