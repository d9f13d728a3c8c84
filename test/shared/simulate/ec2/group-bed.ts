import { seededRandom } from '../../../../shared/clock/index.ts';
import type { OptionConditions } from '../../../../shared/simulate/ec2/conditions.ts';
import { SimulatedGroup } from '../../../../shared/simulate/ec2/group.ts';
import type { GroupListener, GroupOptions } from '../../../../shared/simulate/ec2/group-options.ts';
import { optionSpec } from '../../../support/planner/ec2-fleet.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const START = { capacity: 0, boot: 0, image: 0, weights: 0, engine: 0, compile: 0, register: 0 };

export function conditions(given: Partial<OptionConditions> = {}): OptionConditions {
  return {
    warmSkips: ['capacity'],
    pricePerHour: 3.6,
    warmPricePerHour: 0.36,
    zones: ['a'],
    shortages: [],
    interruptionsPerHour: 0,
    interruptionsAt: [],
    startFailures: 0,
    ...given,
    start: { ...START, capacity: 20, ...given.start },
  };
}

/** Opens a group on a virtual clock, whose instances drain at once. It notes what its listener hears. */
export function openGroup(
  spec: Partial<GroupOptions['spec']> = {},
  given: Partial<OptionConditions> = {},
  { count = 0, clock = new VirtualClock() }: { readonly count?: number; readonly clock?: VirtualClock } = {},
) {
  const heard: string[] = [];
  const events: object[] = [];
  const note =
    (what: string) =>
    ({ id }: { readonly id: string }): void => {
      heard.push(`${clock.nowMs() / 1000} ${what} ${id.split('-').at(-1)}`);
    };
  const listener: GroupListener = {
    serves: note('serves'),
    isNoticed: note('noticed'),
    isLost: note('lost'),
    drains: (instance) => {
      note('drains')(instance);
      group.drained(instance);
    },
    tells: (event) => events.push(event),
  };
  const time = {
    beginsAtMs: clock.wallMs() - clock.nowMs(),
    get nowMs() {
      return clock.nowMs();
    },
    after: (delayMs: number, callback: () => void) => {
      clock.after(delayMs, callback);
    },
  };
  const group: SimulatedGroup = new SimulatedGroup({
    spec: optionSpec('g', 0, spec),
    conditions: conditions(given),
    time,
    random: seededRandom(1),
    listener,
    count,
  });
  const states = (): string[] => Array.from(group.instances, ({ state }) => state);
  return { group, clock, heard, events, states };
}
