import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A service of the stand-in for ECS. */
export interface StandInService {
  readonly name: string;
  /** Value of its tag `stator:part`, or undefined if it lacks the tag. */
  readonly part?: string;
  /** Replaces its tasks. Resolves when the new ones run and the old ones have ended; rejects if they cannot. */
  readonly restart: () => Promise<void>;
}

/** Secrets Manager and ECS, as far as `stator secrets` uses them. */
export interface FleetServices {
  readonly url: string;
  /** Returns the text of a secret that is in force. */
  secret(id: string): string;
  /** Calls received, one line each: the operation and its subject. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

interface Version {
  readonly text: string;
  readonly madeSecs: number;
}

interface Deployment {
  readonly id: string;
  status: string;
  readonly createdAt: number;
  rolloutState: string;
}

type Input = Readonly<Record<string, unknown>>;

/**
 * Starts the services.
 * @param secrets texts by name
 */
export async function startFleetServices(
  secrets: Readonly<Record<string, string>>,
  services: readonly StandInService[],
): Promise<FleetServices> {
  let made = 0;
  const nowSecs = (): number => Date.now() / 1000;
  const versions = new Map(Object.entries(secrets).map(([id, text]) => [id, [{ text, madeSecs: nowSecs() - 3600 }]]));
  const deploymentsOf = new Map<string, Deployment[]>(
    services.map(({ name }) => [
      name,
      [{ id: `first-${name}`, status: 'PRIMARY', createdAt: nowSecs() - 1800, rolloutState: 'COMPLETED' }],
    ]),
  );
  const asked: string[] = [];
  const versionsOf = (id: unknown): Version[] => {
    const found = versions.get(String(id));
    if (found === undefined) throw new Error(`Secrets Manager can't find the specified secret: ${id}`);
    return found;
  };
  const shown = ({ name, part }: StandInService) => ({
    serviceName: name,
    serviceArn: `arn:aws:ecs:us-east-1:123456789012:service/c/${name}`,
    status: 'ACTIVE',
    deployments: deploymentsOf.get(name),
    tags: part === undefined ? [] : [{ key: 'stator:part', value: part }],
  });
  const named = (arn: unknown): StandInService => {
    const found = services.find(({ name }) => String(arn).endsWith(`/${name}`));
    if (found === undefined) throw new Error(`Service not found: ${arn}`);
    return found;
  };
  const operations: Readonly<Record<string, (input: Input) => object>> = {
    GetSecretValue: ({ SecretId }) => {
      const { text, madeSecs } = versionsOf(SecretId).at(-1)!;
      return { SecretString: text, CreatedDate: madeSecs };
    },
    DescribeSecret: ({ SecretId }) => {
      const stages = versionsOf(SecretId).slice(-2).reverse();
      const entries = stages.map((_, at) => [`v${at}`, [at === 0 ? 'AWSCURRENT' : 'AWSPREVIOUS']]);
      return { VersionIdsToStages: Object.fromEntries(entries) };
    },
    PutSecretValue: ({ SecretId, SecretString }) => {
      versionsOf(SecretId).push({ text: String(SecretString), madeSecs: nowSecs() });
      return {};
    },
    ListServices: ({ maxResults, nextToken }) => {
      const from = Number(nextToken ?? 0);
      const to = from + Number(maxResults);
      const serviceArns = services.slice(from, to).map((each) => shown(each).serviceArn);
      return to < services.length ? { serviceArns, nextToken: String(to) } : { serviceArns };
    },
    DescribeServices: ({ services: arns }) => ({ services: (arns as unknown[]).map((arn) => shown(named(arn))) }),
    UpdateService: ({ service }) => {
      const { name, restart } = named(service);
      const own = { id: `d${++made}`, status: 'PRIMARY', createdAt: nowSecs(), rolloutState: 'IN_PROGRESS' };
      const before = (deploymentsOf.get(name) ?? []).map((each) => ({ ...each, status: 'ACTIVE' }));
      deploymentsOf.set(name, [own, ...before]);
      const end = (state: string, left: Deployment[]): void => {
        own.rolloutState = state;
        deploymentsOf.set(name, left);
      };
      void restart().then(
        () => end('COMPLETED', [own]),
        () => end('FAILED', [own, ...before]),
      );
      return { service: shown(named(service)) };
    },
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const operation = String(request.headers['x-amz-target']).split('.')[1] ?? '';
      const input = JSON.parse(Buffer.concat(chunks).toString()) as Input;
      asked.push(`${operation} ${String(input.SecretId ?? input.service ?? '').replace(/^.*\//, '')}`.trim());
      try {
        const answer = operations[operation]?.(input);
        if (answer === undefined) throw new Error(`unknown operation ${operation}`);
        response.end(JSON.stringify(answer));
      } catch (thrown) {
        response.writeHead(400).end(JSON.stringify({ message: (thrown as Error).message }));
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // a listening TCP server has an AddressInfo
    secret: (id) => versionsOf(id).at(-1)!.text,
    asked,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
