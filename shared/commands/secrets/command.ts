import { randomBytes } from 'node:crypto';
import type { Clock } from '../../clock/index.ts';
import { parseFlags, UsageError } from '../config.ts';
import { openFleetAccount } from './fleet-account.ts';
import { KINDS, type Kind, type NamedSecret, type RotationPlan, rotate } from './rotate.ts';

export const SECRETS_HELP = `Usage: stator secrets rotate --cluster CLUSTER --plane-token ID --id-secret ID --nats ID --nats ID
                             [--which plane,ids,nats] [--minutes N] [--resume]

Rotates the secrets with which the processes of a fleet on AWS authenticate each other. It creates new secrets in
Secrets Manager. Then it replaces the tasks of every service that uses them, one service after the other: NATS, edges,
workers. Until a process has the new secret, it presents the previous one, which all processes still accept, so no
request is lost. The output RotateSecretsCommand of a deployment is this command with the deployment's names. The
operator who runs it needs the policy of the output RotatorPolicyArn.

  --cluster CLUSTER     ECS cluster, whose services have the tag stator:part. Without it the command restarts nothing
  --plane-token ID      name or ARN of the secret of STATOR_PLANE_TOKEN
  --id-secret ID        name or ARN of the secret of STATOR_ID_SECRET
  --nats ID             name or ARN of the secret of a user of NATS; may be repeated for each role
  --which A,B           rotates only these: ${KINDS.join(', ')} (default: all that are named)
  --minutes N           limit for the replacement of one service (default: 40)
  --resume              restarts what an interrupted rotation has left, and creates no secret

The command refuses to run until the previous rotation is complete. Processes accept a leaked secret until two
rotations later. Without Secrets Manager, set STATOR_PLANE_TOKEN_PREVIOUS to the old token and STATOR_PLANE_TOKEN to the
new one, process after process, in any order (and likewise STATOR_ID_SECRET). Then remove the previous ones.
`;

const OPTIONS = {
  cluster: { type: 'string' },
  'plane-token': { type: 'string' },
  'id-secret': { type: 'string' },
  nats: { type: 'string', multiple: true },
  which: { type: 'string' },
  minutes: { type: 'string' },
  resume: { type: 'boolean' },
} as const;
const MINUTES_DEFAULT = '40';
const MINUTES_MAX = 24 * 60;

/**
 * Runs `stator secrets`; resolves with what it prints at the end.
 * @param tell receives each step
 * @throws UsageError for a mistake in its arguments, Error in one line when a rotation does not begin or end
 */
export async function runSecrets(argv: readonly string[], clock: Clock, tell: (line: string) => void): Promise<string> {
  const [verb, ...rest] = argv;
  if (verb !== 'rotate') throw new UsageError('stator secrets takes: rotate; stator secrets --help says how');
  const plan = readPlan(rest);
  const account = await openFleetAccount();
  const source = { hex: (bytes: number) => randomBytes(bytes).toString('hex') };
  const { signal } = new AbortController();
  try {
    await rotate(plan, { account, clock, source, tell, signal });
  } finally {
    account.close();
  }
  return 'done\n';
}

function readPlan(argv: readonly string[]): RotationPlan {
  const { values } = parseFlags({ args: [...argv], options: OPTIONS, allowPositionals: false });
  const minutes = values.minutes ?? MINUTES_DEFAULT;
  if (!/^\d{1,4}$/.test(minutes) || Number(minutes) < 1 || Number(minutes) > MINUTES_MAX) {
    throw new UsageError(`--minutes: ${JSON.stringify(minutes)}: a whole number from 1 to ${MINUTES_MAX} is wanted`);
  }
  const named: readonly NamedSecret[] = [
    ...ofKind('nats', values.nats ?? []),
    ...ofKind('plane', values['plane-token']),
    ...ofKind('ids', values['id-secret']),
  ];
  const which = values.which === undefined ? undefined : readKinds(values.which);
  const secrets = named.filter(({ kind }) => which === undefined || which.includes(kind));
  const missing = which?.find((kind) => !secrets.some((each) => each.kind === kind));
  if (missing !== undefined)
    throw new UsageError(`--which ${missing}: no secret of it is named; stator secrets --help`);
  if (secrets.length === 0) throw new UsageError('no secret is named: --plane-token, --id-secret or --nats');
  const { cluster, resume: isResumed = false } = values;
  if (isResumed && cluster === undefined) throw new UsageError('--resume needs --cluster: it restarts services');
  return { secrets, cluster, isResumed, serviceMsMax: Number(minutes) * 60_000 };
}

function ofKind(kind: Kind, ids: string | readonly string[] | undefined): readonly NamedSecret[] {
  return [ids ?? []].flat().map((id) => ({ kind, id }));
}

function readKinds(text: string): readonly Kind[] {
  return text.split(',').map((word) => {
    const kind = KINDS.find((each) => each === word.trim());
    if (kind === undefined) {
      throw new UsageError(`--which: ${JSON.stringify(word)}: allowed are ${KINDS.join(', ')}`);
    }
    return kind;
  });
}
