import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Row, resolveConfig, type SettingName, TABLE } from '../../../shared/config/index.ts';
import { machineWith } from './surroundings.ts';

// Rows whose value alone does not decide: a cross check or an implication looks at it.
const CROSS_CHECKED: ReadonlySet<SettingName> = new Set([
  'auth',
  'disaggregationMode',
  'discoveryBackend',
  'embeddingFrontendTokenization',
  'embeddingWorker',
  'embeddingWorkerProcesses',
  'enableMultimodal',
  'engine',
  'hostEndsAt',
  'hostGpus',
  'hostGpusPerReplica',
  'hostLaunchHook',
  'hostRunner',
  'hostTerminateHook',
  'hostWeightsMode',
  'hostWeightsUri',
  'hostWorkerImage',
  'mmPromptTemplate',
  'multimodalDecodeWorker',
  'multimodalEncodeWorker',
  'multimodalWorker',
  'natsAuthUsername',
  'etcdAuthUsername',
  'numDecodeWorkers',
  'numPrefillWorkers',
  'omni',
  'outputModalities',
  'requestPlane',
  'routeToEncoder',
  'routerApproximateCachePolicy',
  'routerEndpoint',
  'routerPrefillLoadModel',
  'routerTrackingHash',
  'routerTrackingKeyFile',
  'routerTrackingKeyId',
  'routerKvEvents',
  'routerTrackActiveBlocks',
  'stageConfigsPath',
  'systemPort',
  'tcpRpcPort',
  'tune',
]);

/** Texts that the row takes, by trying what could suit any type. */
function samplesOf(row: Row): readonly string[] {
  const words = row.allowed.split(', ');
  const candidates = [
    '0',
    '1',
    '2',
    '5',
    '77',
    '300',
    '1024',
    '5000',
    '70000',
    'true',
    'false',
    '/a',
    '/b',
    'text',
    ...words,
  ];
  return candidates.filter((text) => row.type.parse([text], machineWith()).ok);
}

const simple = [...TABLE].filter(([name, row]) => {
  const isPlain = /^(int|number|port|path|bool|enum|string)/.test(row.type.name);
  return isPlain && !CROSS_CHECKED.has(name) && !name.startsWith('metrics') && samplesOf(row).length > 1;
});

describe('precedence', () => {
  it('covers most of the table', () => {
    expect(simple.length).toBeGreaterThan(250);
  });

  it('is flag over variable over default, for every row and any mix of sources', () => {
    const scenario = fc.constantFrom(...simple).chain(([name, row]) => {
      const text = fc.constantFrom(...samplesOf(row));
      const maybe = (present: boolean) => (present ? fc.option(text, { nil: undefined }) : fc.constant(undefined));
      return fc.record({
        name: fc.constant(name),
        row: fc.constant(row),
        process: fc.constantFrom(...row.usedBy),
        flag: maybe(row.flags.length > 0),
        variable: maybe(row.env.length > 0),
      });
    });
    fc.assert(
      fc.property(scenario, ({ name, row, process, flag, variable }) => {
        const argv = flag === undefined ? [] : [`${row.flags[0]}=${flag}`];
        const env = variable === undefined ? {} : { [row.env[0]!]: variable };
        const around = { surroundings: machineWith(), allowMissing: true };
        const resolved = resolveConfig(process, argv, env, around);
        const strongest = flag ?? variable;
        const parsed = strongest === undefined ? undefined : row.type.parse([strongest], machineWith());
        if (parsed?.ok) {
          expect(resolved.settings[name as keyof typeof resolved.settings]).toEqual(parsed.value);
          const kind = flag !== undefined ? 'flag' : 'variable';
          expect(resolved.given.get(name)?.kind).toBe(kind);
        } else {
          expect(resolved.given.has(name)).toBe(false);
        }
      }),
      { numRuns: 1500 },
    );
  });
});
