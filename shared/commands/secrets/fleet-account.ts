import { type Fields, fieldsOf, listOf } from '../aws-answers.ts';
import { openAccount } from '../deploy-account.ts';

/** A secret as Secrets Manager has it. */
export interface KeptSecret {
  readonly text: string;
  /** Time at which this version was made. */
  readonly madeMs: number;
  /** Whether Secrets Manager keeps a previous version. */
  readonly hasPrevious: boolean;
}

/** Parts of a fleet, in the order of their restart. A service tagged `all` has all of them in one. */
export const PARTS = ['nats', 'edge', 'worker', 'all'] as const;
export type Part = (typeof PARTS)[number];

/** A service of ECS. */
export interface FleetService {
  readonly name: string;
  readonly arn: string;
  readonly part: Part;
  readonly deployments: readonly Deployment[];
}

/** One release of a service; the newest is `PRIMARY`. */
export interface Deployment {
  readonly id: string;
  readonly status: string;
  readonly madeMs: number;
  readonly rollout: string;
}

/** Operations of a rotation in an account. */
export interface FleetAccount {
  readSecret(id: string): Promise<KeptSecret>;
  putSecret(id: string, text: string): Promise<void>;
  /** Returns the services of a cluster whose tag names a part of a fleet. */
  services(cluster: string): Promise<readonly FleetService[]>;
  /** Replaces the tasks of a service. Resolves with the id of that deployment. */
  restart(cluster: string, service: string): Promise<string>;
  close(): void;
}

/** Tag of a service that names its part of the fleet. */
const TAG = 'stator:part';
const SERVICES_PER_CALL = 10;
const SERVICES_MAX = 1000;
const TARGETS = { secretsmanager: 'secretsmanager', ecs: 'AmazonEC2ContainerServiceV20141113' } as const;

/** Opens the account of the usual credentials. @throws Error when there is no region */
export async function openFleetAccount(): Promise<FleetAccount> {
  const account = await openAccount();
  const ask = async (service: keyof typeof TARGETS, operation: string, input: object) =>
    fieldsOf(JSON.parse(await account.post(service, `${TARGETS[service]}.${operation}`, input)));
  return {
    async readSecret(SecretId) {
      const answer = await ask('secretsmanager', 'GetSecretValue', { SecretId });
      if (typeof answer.SecretString !== 'string') throw new Error('it is binary, but must be text');
      const { VersionIdsToStages: versions } = await ask('secretsmanager', 'DescribeSecret', { SecretId });
      const hasPrevious = Object.values(fieldsOf(versions)).some((stages) => listOf(stages).includes('AWSPREVIOUS'));
      return { text: answer.SecretString, madeMs: timeOf(answer.CreatedDate), hasPrevious };
    },
    async putSecret(SecretId, SecretString) {
      const ClientRequestToken = crypto.randomUUID();
      await ask('secretsmanager', 'PutSecretValue', { SecretId, SecretString, ClientRequestToken });
    },
    services: (cluster) => findServices(cluster, (operation, input) => ask('ecs', operation, input)),
    async restart(cluster, service) {
      const input = { cluster, service, forceNewDeployment: true };
      const { service: restarted } = await ask('ecs', 'UpdateService', input);
      const newest = deploymentsOf(fieldsOf(restarted)).find(({ status }) => status === 'PRIMARY');
      if (newest === undefined) throw new Error(`ECS names no deployment of ${service}`);
      return newest.id;
    },
    close: () => account.close(),
  };
}

type AskEcs = (operation: string, input: object) => Promise<Fields>;

async function findServices(cluster: string, ask: AskEcs): Promise<readonly FleetService[]> {
  const arns: string[] = [];
  let nextToken: unknown;
  do {
    const page = await ask('ListServices', {
      cluster,
      maxResults: 100,
      ...(nextToken === undefined ? {} : { nextToken }),
    });
    arns.push(...listOf(page.serviceArns).map(String));
    nextToken = page.nextToken ?? undefined;
    if (arns.length > SERVICES_MAX) throw new Error(`cluster ${cluster} has more than ${SERVICES_MAX} services`);
  } while (nextToken !== undefined);
  const found: FleetService[] = [];
  for (let at = 0; at < arns.length; at += SERVICES_PER_CALL) {
    const services = arns.slice(at, at + SERVICES_PER_CALL);
    const answer = await ask('DescribeServices', { cluster, services, include: ['TAGS'] });
    found.push(...listOf(answer.services).flatMap((each) => fleetService(fieldsOf(each))));
  }
  const order = (service: FleetService): number => PARTS.indexOf(service.part);
  return found.sort((a, b) => order(a) - order(b) || (a.name < b.name ? -1 : 1));
}

function fleetService(service: Fields): readonly FleetService[] {
  const tags = listOf(service.tags).map(fieldsOf);
  const part = PARTS.find((each) => tags.some(({ key, value }) => key === TAG && value === each));
  if (part === undefined || service.status === 'INACTIVE') return [];
  const { serviceName, serviceArn } = service;
  return [{ name: String(serviceName), arn: String(serviceArn), part, deployments: deploymentsOf(service) }];
}

function deploymentsOf({ deployments }: Fields): readonly Deployment[] {
  return listOf(deployments).map((each) => {
    const { id, status, createdAt, rolloutState } = fieldsOf(each);
    return { id: String(id), status: String(status), madeMs: timeOf(createdAt), rollout: String(rolloutState) };
  });
}

/** Returns the milliseconds of a time. Both services give seconds since 1970; some stand-ins give a date as text. */
function timeOf(value: unknown): number {
  return typeof value === 'number' ? value * 1000 : Date.parse(String(value));
}
