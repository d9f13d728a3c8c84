import type { Settings } from '../../config/index.ts';
import type { LaunchFacts } from '../server/launch-facts.ts';
import { argumentValue, givenPort, type LaunchPlan } from '../server/launch-plan.ts';
import { neighbours, serverPorts } from '../server/server-ports.ts';

/**
 * Distance from its HTTP port of the ports that SGLang takes for its ranks with data-parallel attention, and their
 * number.
 */
const DERIVED_FROM = 233;
const DERIVED = 8;

const NCCL = '--nccl-port';
const BOOTSTRAP = '--disaggregation-bootstrap-port';

/** Returns the ports on which an SGLang with these arguments listens. */
export function sglangPorts(
  settings: Settings<'worker'>,
  launchFacts: LaunchFacts,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>> = process.env,
): Pick<LaunchPlan, 'ports' | 'givenPorts'> {
  const { ports, givenPorts } = serverPorts(settings, launchFacts, args);
  const free = { setting: 'STATOR_ENGINE_PORTS', ports: settings.enginePorts };
  const attendsTogether = args.some((arg) => /^--enable[-_]dp[-_]attention$/.test(arg));
  const offsets = attendsTogether ? [0, ...neighbours(DERIVED).map((at) => DERIVED_FROM + at)] : undefined;
  const given = [givenPort(NCCL, argumentValue(args, NCCL)), givenPort(BOOTSTRAP, argumentValue(args, BOOTSTRAP))];
  const [nccl, bootstrap] = given;
  const isPrefill = argumentValue(args, '--disaggregation-mode') === 'prefill';
  // If its server is written in Rust, workers meet at the HTTP port.
  const meetsApart = isPrefill && !/^(1|true|yes|on)$/i.test(env.SGLANG_RUST_SERVER ?? '');
  return {
    ports: {
      ...ports,
      http: offsets === undefined ? ports.http : { ...ports.http, offsets },
      // With several ranks each needs another one, and takes it itself.
      ...(launchFacts.ranks === 1 && nccl === undefined ? { own: free } : {}),
      ...(meetsApart && bootstrap === undefined ? { bootstrap: free } : {}),
    },
    givenPorts: [...given.filter((wish) => wish !== undefined), ...givenPorts],
  };
}
