import { reasonOf } from '../errors/index.ts';
import { type MachineOption, optionsIn } from './deploy-machines.ts';
import { propertiesOf, servicesOf } from './deploy-templates.ts';

/** A quota of an account, as Service Quotas knows it. */
interface Quota {
  readonly service: string;
  readonly code: string;
  readonly name: string;
}

/** Part of a quota that a deployment needs. */
interface QuotaNeed extends Quota {
  readonly needed: number;
  /** Parts of `needed`. */
  readonly because: string;
}

/** A need, and what the account has of it. */
export interface QuotaFinding extends QuotaNeed {
  /** The account's quota; undefined when it could not be read. */
  readonly has: number | undefined;
  /** Why it could not be read. */
  readonly reason?: string;
}

/** Reads one quota, or rejects. The reader itself bounds the time. */
type ReadQuota = (quota: Quota) => Promise<number>;

const STREAMS: Quota = { service: 'lambda', code: 'L-B99A9384', name: 'Concurrent executions of Lambda' };
const TASKS: Quota = { service: 'fargate', code: 'L-3032A538', name: 'Fargate On-Demand vCPU' };
const VPCS: Quota = { service: 'vpc', code: 'L-F678F1CE', name: 'VPCs per Region' };
const ADDRESSES: Quota = { service: 'ec2', code: 'L-0263D0A3', name: 'EC2-VPC Elastic IPs' };

const G_MACHINES: Quota = { service: 'ec2', code: 'L-DB2E81BA', name: 'On-Demand G and VT vCPU' };
const P_MACHINES: Quota = { service: 'ec2', code: 'L-417A185B', name: 'On-Demand P vCPU' };
const G_SPOT: Quota = { service: 'ec2', code: 'L-3819A6DF', name: 'Spot G and VT vCPU' };
const P_SPOT: Quota = { service: 'ec2', code: 'L-7212CCBC', name: 'Spot P vCPU' };
const DISKS: Quota = { service: 'ebs', code: 'L-7A658B76', name: 'Storage of gp3 volumes, TiB' };

/** Concurrency that Lambda leaves to functions without a reservation. */
const UNRESERVED_MIN = 100;
/** Least number of concurrent streams of a useful service. */
const STREAMS_MIN = 10;

/**
 * Returns what synthesised templates need of an account's quotas.
 * @param templates of CloudFormation, of one deployment
 */
export function quotasNeeded(templates: readonly unknown[]): readonly QuotaNeed[] {
  const of = (type: string) => propertiesOf(templates, type);
  const reserved = of('AWS::Lambda::Function').reduce(
    (sum, each) => sum + Number(each.ReservedConcurrentExecutions ?? 0),
    0,
  );
  const streams =
    reserved === 0
      ? { needed: STREAMS_MIN, because: 'one for each stream at a time' }
      : { needed: reserved + UNRESERVED_MIN, because: `${reserved} reserved, and the 100 that Lambda keeps free` };
  const vpcs = of('AWS::EC2::VPC').length;
  const addresses = of('AWS::EC2::EIP').length;
  const all: readonly QuotaNeed[] = [
    { ...STREAMS, ...streams },
    {
      ...TASKS,
      needed: vcpusOf(templates),
      because: 'tasks, and their successors beside them',
    },
    { ...VPCS, needed: vpcs, because: 'beside those that the account has' },
    { ...ADDRESSES, needed: addresses, because: 'of NAT gateways, beside those that the account has' },
    ...machineNeeds(optionsIn(templates)),
  ];
  return all.filter(({ needed }) => needed > 0);
}

/**
 * Returns the cores in use while every service is replaced. Old tasks run until the new ones do, as far as the service
 * allows.
 */
function vcpusOf(templates: readonly unknown[]): number {
  return templates
    .flatMap(servicesOf)
    .reduce((sum, { cores, count, replacedShare }) => sum + cores * count * replacedShare, 0);
}

const GIB_PER_TIB = 1024;

/**
 * Returns what the machines of fleets need if every option has its most, with the largest of its types. Machines of a
 * warm pool run while they are prepared. Those in a capacity block count against no quota of vCPUs.
 */
function machineNeeds(options: readonly MachineOption[]): readonly QuotaNeed[] {
  const machinesOf = ({ max, warm }: MachineOption): number => max + warm;
  const vcpus = (family: string, isSpot: boolean): number =>
    options
      .filter(({ market }) => market !== 'capacity-block' && (market === 'spot') === isSpot)
      .reduce((sum, option) => {
        const most = option.types.filter(({ quota }) => quota === family).map((type) => type.vcpus);
        return sum + machinesOf(option) * Math.max(0, ...most);
      }, 0);
  const gib = options.reduce((sum, option) => sum + machinesOf(option) * option.diskGib, 0);
  const because = 'the most machines of all options, with the largest of their types';
  return [
    { ...G_MACHINES, needed: vcpus('G', false), because },
    { ...P_MACHINES, needed: vcpus('P', false), because },
    { ...G_SPOT, needed: vcpus('G', true), because },
    { ...P_SPOT, needed: vcpus('P', true), because },
    { ...DISKS, needed: Math.ceil((10 * gib) / GIB_PER_TIB) / 10, because: 'disks of all these machines' },
  ];
}

/** Reads what the account has of each need. A quota that cannot be read is a finding of its own. */
export function checkQuotas(needs: readonly QuotaNeed[], read: ReadQuota): Promise<readonly QuotaFinding[]> {
  return Promise.all(
    needs.map(async (need) => {
      try {
        return { ...need, has: await read(need) };
      } catch (thrown) {
        return { ...need, has: undefined, reason: reasonOf(thrown) };
      }
    }),
  );
}

/** Whether the account has what is needed, as far as it could be read. */
export function isShort({ has, needed }: QuotaFinding): boolean {
  return has !== undefined && has < needed;
}
