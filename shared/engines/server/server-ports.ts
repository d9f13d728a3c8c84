import type { Settings } from '../../config/index.ts';
import type { PortWish } from './held-ports.ts';
import { type LaunchFacts, portsOfRanks } from './launch-facts.ts';
import { argumentValue, givenPort, type LaunchPlan } from './launch-plan.ts';

/** Address of the worker before a port is chosen for it. */
const UNCHOSEN = 'tcp://127.0.0.1:0';

type EnginePorts = Pick<LaunchPlan, 'ports' | 'givenPorts'>;

/** Returns `count` consecutive ports, by their distance from the first. */
export function neighbours(count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => at);
}

/**
 * Returns the ports that every engine has: its server's, and those of its KV events.
 * @param launchFacts facts from its command line, before any ports are chosen
 */
export function serverPorts(
  settings: Settings<'worker'>,
  launchFacts: LaunchFacts,
  args: readonly string[],
): EnginePorts {
  const { vllmKvEventPort: named, enginePorts } = settings;
  const free = { setting: 'STATOR_ENGINE_PORTS', ports: enginePorts };
  const http = givenPort('--port', argumentValue(args, '--port')) ?? free;
  if (launchFacts.events === undefined) return { ports: { http }, givenPorts: [] };
  const replay = { ...free, offsets: neighbours(portsOfRanks(launchFacts)) };
  const events = named === undefined ? replay : { ...replay, setting: 'DYN_VLLM_KV_EVENT_PORT', ports: named };
  // The user may have set one of the two endpoints.
  const ours = {
    ...(launchFacts.events.endpoint === UNCHOSEN ? { events } : {}),
    ...(launchFacts.events.replayEndpoint === UNCHOSEN ? { replay } : {}),
  };
  return { ports: { http, ...ours }, givenPorts: givenEvents(launchFacts) };
}

/** Returns the ports of events that the user has set. */
function givenEvents({ events, firstRank, local }: LaunchFacts): readonly PortWish[] {
  const offsets = neighbours(local).map((rank) => firstRank + rank);
  const wishes = [
    portOf('endpoint', events?.endpoint, offsets),
    portOf('replay_endpoint', events?.replayEndpoint, offsets),
  ];
  return wishes.filter((wish) => wish !== undefined);
}

function portOf(name: string, address: string | undefined, offsets: readonly number[]): PortWish | undefined {
  const [, host, port] = /^tcp:\/\/(.+):(\d+)$/.exec(address ?? '') ?? [];
  const isEverywhere = host === '*' || host === '[::]' || host === '::';
  return givenPort(`--kv-events-config (${name})`, port, { offsets, host: isEverywhere ? '0.0.0.0' : host });
}
