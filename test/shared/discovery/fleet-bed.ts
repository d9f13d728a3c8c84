import { seededRandom } from '../../../shared/clock/index.ts';
import { DynamoDbDiscovery } from '../../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import type { DynamoDbDiscoveryOptions } from '../../../shared/discovery/dynamodb/options.ts';
import { TableTime } from '../../../shared/discovery/index.ts';
import type { ReadingSource } from '../../../shared/discovery/options.ts';
import { Witness } from '../../contract/discovery/records.ts';
import { FreezableClock } from '../../support/index.ts';
import { MemoryTable, type MemoryTableClient } from '../../support/memory-table.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** A process of a fleet in virtual time. */
export interface BedProcess {
  readonly discovery: DynamoDbDiscovery;
  readonly client: MemoryTableClient;
  readonly clock: FreezableClock;
  /** Time by the table's answers, which say nothing of it unless a test notes one. */
  readonly time: TableTime;
  readonly witness: Witness;
  readonly problems: string[];
  /** Where its readings came from, in order. */
  readonly sources: ReadingSource[];
  /** Every change of whether it gathers, in order. */
  readonly gathering: boolean[];
  /** Stands still, as one that was stopped: no timer fires and no answer arrives. */
  freeze(): void;
  thaw(): void;
}

/** Processes over one table in memory, all on one virtual clock. */
export class FleetBed {
  readonly clock = new VirtualClock();
  readonly table = new MemoryTable(this.clock);
  /** All that were opened, in order. */
  readonly processes: BedProcess[] = [];
  #seed = 1;

  open(options: Partial<DynamoDbDiscoveryOptions> = {}): BedProcess {
    const client = this.table.connect();
    const clock = new FreezableClock(this.clock);
    const [problems, sources, gathering]: [string[], ReadingSource[], boolean[]] = [[], [], []];
    const time = new TableTime(clock);
    const discovery = new DynamoDbDiscovery(client.table, time, {
      clock,
      random: seededRandom(this.#seed++),
      onProblem: ({ message }) => problems.push(message),
      observer: { read: (source) => sources.push(source), gathering: (now) => gathering.push(now) },
      ...options,
    });
    const process: BedProcess = {
      ...{ discovery, client, clock, time, witness: new Witness(), problems, sources, gathering },
      freeze: () => {
        clock.freeze();
        client.stall(true);
      },
      thaw: () => {
        client.stall(false);
        clock.thaw();
      },
    };
    this.processes.push(process);
    return process;
  }

  /** A process that follows all instances. */
  async follow(options: Partial<DynamoDbDiscoveryOptions> = {}): Promise<BedProcess> {
    const process = this.open(options);
    await process.discovery.watch({ bucket: 'v1/instances', prefix: '' }, process.witness);
    return process;
  }

  /** Lets time pass in steps that leave turns for what answers. */
  async pass(ms: number, stepMs = 100): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) await this.clock.advance(Math.min(left, stepMs));
  }
}
