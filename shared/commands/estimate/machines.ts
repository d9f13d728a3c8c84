import type { MachineOption } from '../deploy-machines.ts';
import { HOURS, PRICES, type PricedPart, pricePart } from './prices.ts';

/** Throughput and operations of a gp3 volume that its price by the GiB covers. */
const FREE = { mibs: 125, iops: 3000 } as const;
/** Speed of the volumes of fleets (`infra/constructs/ec2-fleet/launch-template.ts`). */
const VOLUME = { mibs: 1000, iops: 4000 } as const;

/** Costs of a month of the machines of fleets. */
export interface MachineCosts {
  /** Machines that always run, and those of warm pools. */
  readonly idle: readonly PricedPart[];
  /** Machines beyond these, if every option has its most. */
  readonly worst: readonly PricedPart[];
  /** Options whose price is not known: they count as nothing. */
  readonly unpriced: readonly string[];
}

/** @param spotDiscount percent by which spot machines cost less than the list price */
export function priceMachines(options: readonly MachineOption[], spotDiscount: number): MachineCosts {
  const named = options.map((option) => ({ option, name: `${option.fleet} ${option.id}` }));
  return {
    idle: named.flatMap(({ option, name }) => [
      pricePart(`machines of ${name}`, option.min, machineMonth(option, spotDiscount, 'first')),
      option.isWarmRunning
        ? pricePart(`machines that wait, of ${name}`, option.warm, machineMonth(option, spotDiscount, 'first'))
        : pricePart(`disks of machines that wait, of ${name}`, option.warm, diskMonth(option)),
    ]),
    worst: named.map(({ option, name }) =>
      pricePart(`more machines of ${name}`, option.max - option.min, machineMonth(option, spotDiscount, 'dearest')),
    ),
    unpriced: named.flatMap(({ option, name }) => (hourOf(option, 'dearest') === undefined ? [name] : [])),
  };
}

/**
 * Returns the cost of a machine for a month. What is reserved is paid for elsewhere, in use or not. The fee for a
 * machine that EKS manages follows from the list price, on Spot as well.
 */
function machineMonth(option: MachineOption, spotDiscount: number, which: 'first' | 'dearest'): number {
  const bought = option.market === 'spot' ? 1 - spotDiscount / 100 : isPrepaid(option) ? 0 : 1;
  const share = bought + (option.isManaged ? PRICES.autoModeShare : 0);
  return (hourOf(option, which) ?? 0) * share * HOURS + diskMonth(option);
}

/** Whether its machines are paid for with a capacity block. */
function isPrepaid({ market }: MachineOption): boolean {
  return market === 'capacity-block';
}

/** Returns the list price of an hour of the first type, or of the dearest one; undefined if a type has none. */
function hourOf(option: MachineOption, which: 'first' | 'dearest'): number | undefined {
  if (isPrepaid(option) && !option.isManaged) return 0;
  const prices = option.types.map(({ hourUsd }) => hourUsd);
  if (which === 'first') return prices[0];
  return prices.reduce(
    (most, price) => (most === undefined || price === undefined ? undefined : Math.max(most, price)),
    0,
  );
}

function diskMonth({ diskGib }: MachineOption): number {
  return (
    diskGib * PRICES.gp3GibMonth +
    (VOLUME.mibs - FREE.mibs) * PRICES.gp3MibsMonth +
    (VOLUME.iops - FREE.iops) * PRICES.gp3IopsMonth
  );
}
