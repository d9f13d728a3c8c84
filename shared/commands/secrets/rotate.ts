import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { FleetAccount, FleetService, Part } from './fleet-account.ts';
import { namesPrevious, rotatedText, type SecretSource } from './rotated-text.ts';

/** Secrets that can be rotated separately. */
export const KINDS = ['plane', 'ids', 'nats'] as const;
export type Kind = (typeof KINDS)[number];

/** One secret of a fleet. */
export interface NamedSecret {
  readonly kind: Kind;
  /** Name or ARN. */
  readonly id: string;
}

export interface RotationPlan {
  readonly secrets: readonly NamedSecret[];
  /** Cluster of the services that have the secrets; undefined = the operator restarts them. */
  readonly cluster: string | undefined;
  /** Whether to restart only the services that an earlier rotation has left, without new secrets. */
  readonly isResumed: boolean;
  /** Longest time until the new tasks of a service run and the old ones are gone. */
  readonly serviceMsMax: number;
}

export interface RotationParts {
  readonly account: FleetAccount;
  readonly clock: Clock;
  readonly source: SecretSource;
  readonly tell: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Parts that have a secret, in the order of their restart: those that check it before those that show it. */
const PARTS_OF: Readonly<Record<Kind, readonly Part[]>> = {
  nats: ['nats', 'edge', 'worker', 'all'],
  plane: ['edge', 'worker', 'all'],
  ids: ['edge', 'all'],
};
/** Time after which all functions know a new secret: they look every five minutes (`STATOR_SECRET_CACHE_SECS`). */
const HEARD_MS = 10 * 60_000;
const LOOK_MS = 5000;

/** Reason why a rotation does not begin or does not end, in one line that says what to do. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
}

/**
 * Rotates secrets: puts a new one, then replaces the tasks of every service that has it, one service after the other.
 *
 * Every process also accepts the previous secret, and shows a secret that its peer knows. So nothing fails between the
 * first service and the last. That holds for one rotation at a time: `rotate` refuses to begin while a process may
 * still have the secret before the previous one.
 */
export async function rotate(plan: RotationPlan, parts: RotationParts): Promise<void> {
  const { account, tell } = parts;
  const services = plan.cluster === undefined ? [] : await account.services(plan.cluster);
  if (plan.cluster !== undefined && services.length === 0) {
    throw new RotationError(
      `cluster ${plan.cluster} has no service with the tag stator:part, which a deployment gives`,
    );
  }
  const kept = await readAll(plan, parts);
  const behind = servicesBehind(kept, services);
  if (plan.isResumed) return restartAll(plan, behind, parts);
  refuseUnfinished(kept, behind, parts);
  for (const { id, text } of kept) {
    const next = rotatedText(text, parts.source);
    await account.putSecret(id, next);
    tell(`${id}: a new one is in force, and the previous one is accepted`);
  }
  const parted = new Set(kept.flatMap(({ kind }) => PARTS_OF[kind]));
  await restartAll(
    plan,
    services.filter(({ part }) => parted.has(part)),
    parts,
  );
}

interface ReadSecret extends NamedSecret {
  readonly text: string;
  readonly madeMs: number;
  readonly wasRotated: boolean;
}

/** Reads all secrets before any change, so that one that cannot be rotated fails the command with nothing done. */
async function readAll({ secrets }: RotationPlan, { account, source }: RotationParts): Promise<readonly ReadSecret[]> {
  return Promise.all(
    secrets.map(async ({ kind, id }) => {
      try {
        const { text, madeMs, hasPrevious } = await account.readSecret(id);
        rotatedText(text, source);
        return { kind, id, text, madeMs, wasRotated: namesPrevious(text) ?? hasPrevious };
      } catch (cause) {
        throw new RotationError(`${id}: ${reasonOf(cause)}`, { cause });
      }
    }),
  );
}

/** Returns the services whose tasks may have started before one of their secrets was rotated. */
function servicesBehind(kept: readonly ReadSecret[], services: readonly FleetService[]): readonly FleetService[] {
  return services.filter(({ part, deployments }) => {
    const rotated = kept.filter(({ kind, wasRotated }) => wasRotated && PARTS_OF[kind].includes(part));
    return deployments.some((each) => rotated.some(({ madeMs }) => each.madeMs <= madeMs));
  });
}

function refuseUnfinished(
  kept: readonly ReadSecret[],
  behind: readonly FleetService[],
  { clock }: RotationParts,
): void {
  if (behind.length > 0) {
    const names = behind.map(({ name }) => name).join(', ');
    throw new RotationError(
      `the previous rotation is not complete: ${names} may still have the secret before it. stator secrets rotate --resume restarts them`,
    );
  }
  for (const { id, madeMs, wasRotated } of kept) {
    const leftMs = madeMs + HEARD_MS - clock.wallMs();
    if (!wasRotated || leftMs <= 0) continue;
    const minutes = Math.ceil(leftMs / 60_000);
    throw new RotationError(
      `${id} was rotated a moment ago, and some processes may not know it yet: try again in ${minutes} min`,
    );
  }
}

async function restartAll(plan: RotationPlan, services: readonly FleetService[], parts: RotationParts): Promise<void> {
  const { cluster, serviceMsMax } = plan;
  if (cluster === undefined) {
    parts.tell('no --cluster: restart every process that has the secrets, in any order, before the next rotation');
    return;
  }
  for (const service of services) {
    parts.tell(`${service.name}: restarting`);
    const deployment = await parts.account.restart(cluster, service.arn);
    await untilSteady(cluster, service, deployment, serviceMsMax, parts);
    parts.tell(`${service.name}: restarted`);
  }
  parts.tell(services.length === 0 ? 'nothing is left to restart' : 'every service has the secrets in force');
}

/** Advice about a service that did not become steady. */
const RESUME = 'Look at its events, then stator secrets rotate --resume goes on';

/**
 * Waits until a deployment is the only one of its service. If a look at the service fails, it looks again, until the
 * time is over.
 */
async function untilSteady(
  cluster: string,
  { name, arn }: FleetService,
  deployment: string,
  msMax: number,
  { account, clock, signal }: RotationParts,
): Promise<void> {
  const deadlineMs = clock.nowMs() + msMax;
  for (;;) {
    let unseen = '';
    const services = await account.services(cluster).catch((thrown: unknown) => {
      unseen = `, and the last look at it failed: ${reasonOf(thrown)}`;
    });
    if (services !== undefined && isSteady(services, name, arn, deployment)) return;
    if (clock.nowMs() >= deadlineMs) {
      throw new RotationError(`${name}: not restarted within ${Math.round(msMax / 60_000)} min${unseen}. ${RESUME}`);
    }
    await clock.sleep(LOOK_MS, signal);
  }
}

/** Whether the deployment is the only one of its service. @throws RotationError if ECS has taken it back */
function isSteady(services: readonly FleetService[], name: string, arn: string, deployment: string): boolean {
  const { deployments = [] } = services.find((each) => each.arn === arn) ?? {};
  const own = deployments.find(({ id }) => id === deployment);
  if (own === undefined || own.rollout === 'FAILED') {
    throw new RotationError(`${name}: its new tasks do not run, and ECS has taken them back. ${RESUME}`);
  }
  return deployments.length === 1 && own.rollout === 'COMPLETED';
}
