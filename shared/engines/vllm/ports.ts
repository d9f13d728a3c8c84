import type { Settings } from '../../config/index.ts';
import type { PortWish } from '../server/held-ports.ts';
import { type LaunchFacts, portsOfRanks } from '../server/launch-facts.ts';
import { argumentValue, givenPort, type LaunchPlan } from '../server/launch-plan.ts';
import { neighbours, serverPorts } from '../server/server-ports.ts';

/**
 * Number of ports that the processes of one engine take for their own connections (e.g. torch's rendezvous), from the
 * first one up. With several ranks all would start at the same port, so the system chooses theirs.
 */
const OWN_PORTS = 16;

/** Returns the ports on which a vLLM with these arguments listens. */
export function vllmPorts(
  settings: Settings<'worker'>,
  launchFacts: LaunchFacts,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>> = process.env,
): Pick<LaunchPlan, 'ports' | 'givenPorts'> {
  const { ports, givenPorts } = serverPorts(settings, launchFacts, args);
  const { VLLM_PORT: named = '' } = env;
  // Kubernetes sets it to a URL beside a service called vllm.
  const drawsOwn = launchFacts.ranks === 1 && (named === '' || named.includes('://'));
  const own = {
    setting: 'STATOR_ENGINE_PORTS',
    ports: settings.enginePorts,
    offsets: neighbours(OWN_PORTS),
    host: '0.0.0.0',
  };
  return {
    ports: {
      ...ports,
      ...(handsOver(args) ? { sideChannel: sideChannel(settings, portsOfRanks(launchFacts)) } : {}),
      ...(encodes(args) ? { encoder: encoderChannel(settings, env.VLLM_EC_SIDE_CHANNEL_PORT) } : {}),
      ...(drawsOwn ? { own } : {}),
    },
    givenPorts,
  };
}

/** Returns whether the engine passes KV blocks to others by NIXL, which listens for them. */
export function handsOver(args: readonly string[]): boolean {
  return args.some((arg) => arg.includes('NixlConnector'));
}

/** Returns whether other engines fetch encoded media from it. */
function encodes(args: readonly string[]): boolean {
  return /"ec_(producer|both)"/.test(argumentValue(args, '--ec-transfer-config') ?? '');
}

function encoderChannel({ enginePorts: ports }: Settings<'worker'>, named: string | undefined): PortWish {
  return givenPort('VLLM_EC_SIDE_CHANNEL_PORT', named) ?? { setting: 'STATOR_ENGINE_PORTS', ports };
}

function sideChannel(settings: Settings<'worker'>, ranks: number): PortWish {
  const { vllmNixlSideChannelPort: port, vllmNixlSideChannelHost: host = '0.0.0.0', enginePorts } = settings;
  const offsets = neighbours(ranks);
  return port === undefined
    ? { setting: 'STATOR_ENGINE_PORTS', ports: enginePorts, offsets, host }
    : { setting: 'VLLM_NIXL_SIDE_CHANNEL_PORT', ports: { first: port, last: port }, offsets, host };
}
