import { fieldsOf } from './aws-answers.ts';
import { type Account, textsOf } from './deploy-account.ts';
import { propertiesOf } from './deploy-templates.ts';

/** Problem of a zone of a deployment. */
export interface ZoneProblem {
  readonly zone: string;
  readonly reason: string;
  /** Whether it keeps the deployment from succeeding. */
  readonly isFatal: boolean;
}

export interface ZoneFindings {
  /** Zones that the deployment spreads over. */
  readonly needed: number;
  /** Number of those zones in which everything runs. */
  readonly has: number;
  readonly problems: readonly ZoneProblem[];
  /** Names of zones of the account in which everything runs. */
  readonly good: readonly string[];
}

/**
 * Zones with Fargate, by their ids, of regions in which not every zone has it. Names of zones differ between
 * accounts.
 */
const FARGATE_ZONES: Readonly<Record<string, readonly string[]>> = {
  'us-west-1': ['usw1-az1', 'usw1-az3'],
  'ap-northeast-1': ['apne1-az1', 'apne1-az2', 'apne1-az4'],
  'cn-north-1': ['cnn1-az1', 'cnn1-az2'],
};
/** Zones in which no current type of instance with GPUs is sold. */
const WITHOUT_GPUS: readonly string[] = ['use1-az3'];

/** A zone as a template names it: by its name, or by its index among the account's zones. */
type Wanted = string | number;

/**
 * Compares the zones of synthesised templates with those of the account.
 * @returns undefined if the templates make no subnets
 */
export async function checkZones(templates: readonly unknown[], account: Account): Promise<ZoneFindings | undefined> {
  const wanted = wantedIn(templates);
  if (wanted.length === 0) return undefined;
  const ids = await accountZones(account);
  const names = [...ids.keys()].sort();
  const all = wanted.map((zone) => problemOf(zone, names, ids, account.region));
  const problems = all.filter((problem) => problem !== undefined);
  const good = names.filter((name) => lackIn(ids.get(name) ?? '', account.region)?.isFatal !== true);
  return { needed: wanted.length, has: all.filter((problem) => problem?.isFatal !== true).length, problems, good };
}

function problemOf(
  wanted: Wanted,
  names: readonly string[],
  ids: ReadonlyMap<string, string>,
  region: string,
): ZoneProblem | undefined {
  const zone = typeof wanted === 'string' ? wanted : names[wanted];
  if (zone === undefined)
    return {
      zone: `zone ${Number(wanted) + 1}`,
      reason: `the account has ${names.length} in ${region}`,
      isFatal: true,
    };
  const id = ids.get(zone);
  if (id === undefined) return { zone, reason: `no zone of the account in ${region}`, isFatal: true };
  const lack = lackIn(id, region);
  return lack === undefined ? undefined : { zone: `${zone} (${id})`, ...lack };
}

function lackIn(id: string, region: string): { readonly reason: string; readonly isFatal: boolean } | undefined {
  if (FARGATE_ZONES[region]?.includes(id) === false) return { reason: 'has no Fargate', isFatal: true };
  if (WITHOUT_GPUS.includes(id)) return { reason: 'has no current instances with GPUs', isFatal: false };
  return undefined;
}

/** Returns the zones of the subnets, each once. */
function wantedIn(templates: readonly unknown[]): readonly Wanted[] {
  const read = propertiesOf(templates, 'AWS::EC2::Subnet').flatMap(({ AvailabilityZone: zone }): readonly Wanted[] => {
    if (typeof zone === 'string') return [zone];
    const select = fieldsOf(zone)['Fn::Select'];
    return Array.isArray(select) ? [Number(select[0])] : [];
  });
  return [...new Set(read)];
}

/** Returns the names of the zones of templates, of an account that has the zones `names`, in order. */
export function zonesIn(templates: readonly unknown[], names: readonly string[]): readonly string[] {
  return wantedIn(templates).flatMap((zone) => (typeof zone === 'string' ? zone : (names[zone] ?? [])));
}

/** Returns the ids of the account's zones in its region, by their names there. */
export async function accountZones(account: Account): Promise<ReadonlyMap<string, string>> {
  const filter = { 'Filter.1.Name': 'zone-type', 'Filter.1.Value.1': 'availability-zone' };
  const query = { Action: 'DescribeAvailabilityZones', Version: '2016-11-15', ...filter };
  const answer = await account.get('ec2', '/', query);
  const ids = textsOf(answer, 'zoneId');
  return new Map(textsOf(answer, 'zoneName').map((name, at) => [name, ids[at] ?? '']));
}
