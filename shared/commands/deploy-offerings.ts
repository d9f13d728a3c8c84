import { type Account, textsOf } from './deploy-account.ts';
import { type MachineOption, optionsIn } from './deploy-machines.ts';
import { accountZones, zonesIn } from './deploy-zones.ts';

/** One option of a fleet, and the zones in which EC2 sells its machines. */
export interface OfferingFinding {
  /** Name of the fleet, with the option. */
  readonly name: string;
  readonly types: readonly string[];
  /** Zones in which the option starts machines, and those of them that have one of its types. */
  readonly zones: readonly string[];
  readonly good: readonly string[];
  /** Zones of the region that have one of its types. */
  readonly elsewhere: readonly string[];
}

const PAGES_MAX = 20;

/** Finds where EC2 sells the machines of fleets. Without fleets on EC2 it asks nothing. */
export async function findOfferings(
  templates: readonly unknown[],
  account: Account,
): Promise<readonly OfferingFinding[]> {
  const options = optionsIn(templates);
  if (options.length === 0) return [];
  const types = [...new Set(options.flatMap((option) => option.types.map(({ name }) => name)))];
  const [offered, names] = await Promise.all([offeringsOf(types, account), accountZones(account)]);
  const all = zonesIn(templates, [...names.keys()].sort());
  return options.map((option) => findingOf(option, offered, all));
}

function findingOf(
  { fleet, id, types, zones: own }: MachineOption,
  offered: ReadonlyMap<string, ReadonlySet<string>>,
  all: readonly string[],
): OfferingFinding {
  const names = types.map(({ name }) => name);
  const elsewhere = [...new Set(names.flatMap((name) => [...(offered.get(name) ?? [])]))].sort();
  const zones = own.length > 0 ? own : all.length > 0 ? all : elsewhere; // a network of yours is in no template
  return {
    name: `${fleet} ${id}`,
    types: names,
    zones,
    good: zones.filter((zone) => elsewhere.includes(zone)),
    elsewhere,
  };
}

/** Returns the zones of each type, by name ("DescribeInstanceTypeOfferings"). */
async function offeringsOf(
  types: readonly string[],
  account: Account,
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const filters = types.map((name, at) => [`Filter.1.Value.${at + 1}`, name] as const);
  const query = {
    Action: 'DescribeInstanceTypeOfferings',
    Version: '2016-11-15',
    LocationType: 'availability-zone',
    'Filter.1.Name': 'instance-type',
    ...Object.fromEntries(filters),
  };
  const found = new Map<string, Set<string>>();
  let token: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const answer = await account.get('ec2', '/', token === undefined ? query : { ...query, NextToken: token });
    const places = textsOf(answer, 'location');
    textsOf(answer, 'instanceType').forEach((type, at) => {
      found.set(type, (found.get(type) ?? new Set()).add(places[at] ?? ''));
    });
    [token] = textsOf(answer, 'nextToken');
    if (token === undefined || token === '') return found;
  }
  throw new Error(`DescribeInstanceTypeOfferings has more than ${PAGES_MAX} pages`);
}
