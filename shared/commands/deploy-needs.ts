import { reasonOf } from '../errors/index.ts';
import { isRecord } from '../records/index.ts';

/** What is asked of a deployment. */
interface DeployLoad {
  readonly requestsPerDay: number;
  /** How long an answer takes on average. */
  readonly secondsPerRequest: number;
}

/** One kind of resource and what it costs a month, US$. */
export interface PricedPart {
  readonly name: string;
  readonly count: number;
  readonly dollars: number;
}

export interface Estimate {
  /** What is paid though nobody asks anything. */
  readonly idle: readonly PricedPart[];
  /** What the load adds. */
  readonly load: readonly PricedPart[];
  /** Streams at a time, on average, from which on two container edges with a load balancer cost less than the function. */
  readonly streamsForContainers: number | undefined;
}

/** US$, list prices of us-east-1. */
const PRICES = {
  vcpuHour: 0.03238, // Fargate on ARM
  gbHour: 0.00356,
  diskGbHour: 0.000111, // beyond 20 GB
  publicAddressHour: 0.005,
  natHour: 0.045,
  balancerHour: 0.0225,
  secretMonth: 0.4,
  alarmMonth: 0.1,
  zoneMonth: 0.5,
  firewallMonth: 6, // the list and one rule
  gatewayMillion: 3.5,
  requestMillion: 0.2,
  gbSecond: 0.0000133334,
} as const;
const HOURS = 730;
const DAYS = HOURS / 24;
const DISK_GB_FREE = 20;

/** What the estimate does not say. */
export const LEFT_OUT: readonly string[] = [
  'traffic (0.09 a GB to the internet, 0.045 a GB through a NAT gateway), logs (0.50 a GB), tables, files and images by the GB',
  'reads and writes of tables: leases about 1 a month for each process, keys and responses by use',
  'metrics of the function while it is asked (0.30 a month each: four, and three for each model)',
  'container insights, tasks beyond those that always run, machines of your own, free tiers, discounts and taxes',
];

type Resource = Readonly<Record<string, unknown>>;

/**
 * Prices synthesised templates. It reads what it knows and takes no notice of the rest.
 * @param templates of CloudFormation, of one deployment
 */
export function estimateDeployment(templates: readonly unknown[], load: DeployLoad): Estimate {
  const resources = resourcesOf(templates);
  const of = (type: string) => resources.filter(([, resource]) => resource.Type === type);
  const part = (name: string, count: number, each: number): PricedPart => ({ name, count, dollars: count * each });
  const { idle: tasks, addresses } = priceTasks(resources);
  const idle = [
    ...tasks,
    part('public addresses of tasks', addresses, PRICES.publicAddressHour * HOURS),
    part(
      'NAT gateways with their addresses',
      of('AWS::EC2::NatGateway').length,
      (PRICES.natHour + PRICES.publicAddressHour) * HOURS,
    ),
    part('load balancers', of('AWS::ElasticLoadBalancingV2::LoadBalancer').length, PRICES.balancerHour * HOURS),
    part('secrets', of('AWS::SecretsManager::Secret').length, PRICES.secretMonth),
    part('alarms', of('AWS::CloudWatch::Alarm').length, PRICES.alarmMonth),
    part('private zones', of('AWS::ServiceDiscovery::PrivateDnsNamespace').length, PRICES.zoneMonth),
    part('firewalls', of('AWS::WAFv2::WebACL').length, PRICES.firewallMonth),
  ].filter(({ count }) => count > 0);
  const gb = functionGb(of('AWS::Lambda::Function').map(([, resource]) => resource));
  const requests = load.requestsPerDay * DAYS;
  const seconds = requests * load.secondsPerRequest;
  const containers = 2 * (PRICES.vcpuHour + 2 * PRICES.gbHour) * HOURS + PRICES.balancerHour * HOURS;
  return {
    idle,
    load: [
      part('requests at the gateway', requests, PRICES.gatewayMillion / 1e6),
      part('requests at the function', requests, PRICES.requestMillion / 1e6),
      part('seconds of the function', seconds, gb * PRICES.gbSecond),
    ],
    streamsForContainers: gb === 0 ? undefined : containers / (gb * PRICES.gbSecond * HOURS * 3600),
  };
}

/** The function that streams is the largest; CDK brings small ones. */
function functionGb(functions: readonly Resource[]): number {
  return Math.max(0, ...functions.map(({ Properties }) => Number(asRecord(Properties).MemorySize ?? 128))) / 1024;
}

function priceTasks(resources: readonly (readonly [string, Resource])[]) {
  const byId = new Map(resources);
  const idle: PricedPart[] = [];
  let addresses = 0;
  for (const [id, { Type, Properties }] of resources) {
    if (Type !== 'AWS::ECS::Service') continue;
    const service = asRecord(Properties);
    const count = tasksOf(id, byId);
    const definition = asRecord(byId.get(String(asRecord(service.TaskDefinition).Ref))?.Properties);
    const disk = Number(asRecord(definition.EphemeralStorage).SizeInGiB ?? DISK_GB_FREE) - DISK_GB_FREE;
    const hour =
      (Number(definition.Cpu) / 1024) * PRICES.vcpuHour +
      (Number(definition.Memory) / 1024) * PRICES.gbHour +
      disk * PRICES.diskGbHour;
    idle.push({ name: `tasks of ${id.replace(/Service[0-9A-F]{8}$/, '')}`, count, dollars: count * hour * HOURS });
    const network = asRecord(asRecord(service.NetworkConfiguration).AwsvpcConfiguration);
    if (network.AssignPublicIp === 'ENABLED') addresses += count;
  }
  return { idle, addresses };
}

/** All resources of templates, each with its logical id. */
export function resourcesOf(templates: readonly unknown[]): readonly (readonly [id: string, resource: Resource])[] {
  return templates.flatMap((template) =>
    Object.entries(asRecord(asRecord(template).Resources)).map(([id, resource]) => [id, asRecord(resource)] as const),
  );
}

function asRecord(value: unknown): Resource {
  return isRecord(value) ? value : {};
}

/** A quota of an account, as Service Quotas knows it. */
interface Quota {
  readonly service: string;
  readonly code: string;
  readonly name: string;
}

/** What a deployment takes of a quota. */
interface QuotaNeed extends Quota {
  readonly needed: number;
  /** What `needed` is made of. */
  readonly because: string;
}

/** A need beside what the account has. */
export interface QuotaFinding extends QuotaNeed {
  /** The account's quota; undefined when it could not be read. */
  readonly has: number | undefined;
  /** Why it could not be read. */
  readonly reason?: string;
}

/** Reads one quota, or rejects. Bounded in time by itself. */
type ReadQuota = (quota: Quota) => Promise<number>;

const STREAMS: Quota = { service: 'lambda', code: 'L-B99A9384', name: 'Concurrent executions of Lambda' };
const TASKS: Quota = { service: 'fargate', code: 'L-3032A538', name: 'Fargate On-Demand vCPU' };
const VPCS: Quota = { service: 'vpc', code: 'L-F678F1CE', name: 'VPCs per Region' };
const ADDRESSES: Quota = { service: 'ec2', code: 'L-0263D0A3', name: 'EC2-VPC Elastic IPs' };

/** Lambda leaves this many to functions without a reservation. */
const UNRESERVED_MIN = 100;
/** Fewer streams at a time than this are no service. */
const STREAMS_MIN = 10;
const READ_MS_MAX = 10_000;
/**
 * What synthesised templates take of an account's quotas.
 * @param templates of CloudFormation, of one deployment
 */
export function quotasNeeded(templates: readonly unknown[]): readonly QuotaNeed[] {
  const resources = new Map(resourcesOf(templates));
  const of = (type: string): readonly Resource[] =>
    [...resources.values()].filter(({ Type }) => Type === type).map(({ Properties }) => asRecord(Properties));
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
      needed: vcpusOf(resources),
      because: 'tasks, and their successors beside them',
    },
    { ...VPCS, needed: vpcs, because: 'beside those that the account has' },
    { ...ADDRESSES, needed: addresses, because: 'of NAT gateways, beside those that the account has' },
  ];
  return all.filter(({ needed }) => needed > 0);
}

/** Cores while every service is replaced: its old tasks run until the new ones do, as far as it allows. */
function vcpusOf(resources: ReadonlyMap<string, Resource>): number {
  return [...resources].reduce((sum, [id, { Type, Properties }]) => {
    if (Type !== 'AWS::ECS::Service') return sum;
    const service = asRecord(Properties);
    const definition = asRecord(resources.get(String(asRecord(service.TaskDefinition).Ref))?.Properties);
    const share = Number(asRecord(service.DeploymentConfiguration).MaximumPercent ?? 200) / 100;
    return sum + (Number(definition.Cpu ?? 0) / 1024) * tasksOf(id, resources) * share;
  }, 0);
}

/** Tasks of a service that always run. One that is scaled says none itself: its scaling has the least. */
function tasksOf(id: string, resources: ReadonlyMap<string, Resource>): number {
  const { DesiredCount } = asRecord(resources.get(id)?.Properties);
  if (DesiredCount !== undefined) return Number(DesiredCount);
  const scaling = [...resources.values()].find(
    ({ Type, Properties }) =>
      Type === 'AWS::ApplicationAutoScaling::ScalableTarget' &&
      JSON.stringify(asRecord(Properties).ResourceId).includes(`"${id}"`),
  );
  return Number(asRecord(scaling?.Properties).MinCapacity ?? 1);
}

/** Reads what the account has of each. A quota that cannot be read is a finding of its own. */
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

/** Reads quotas of the region of `AWS_REGION`, with the usual credentials; `AWS_ENDPOINT_URL` names another service. */
export async function openQuotas(): Promise<{ readonly read: ReadQuota; close(): void }> {
  const { GetServiceQuotaCommand, ServiceQuotasClient } = await import('./deploy-quota-parts.ts');
  const client = new ServiceQuotasClient({ maxAttempts: 2 });
  return {
    read: async ({ service, code }) => {
      const command = new GetServiceQuotaCommand({ ServiceCode: service, QuotaCode: code });
      const { Quota: quota } = await client.send(command, { abortSignal: AbortSignal.timeout(READ_MS_MAX) });
      if (quota?.Value === undefined) throw new Error('the service names no value');
      return quota.Value;
    },
    close: () => client.destroy(),
  };
}
