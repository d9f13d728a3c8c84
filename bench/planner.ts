/**
 * Compares the planner's laws on the reference workloads, with engines that start in three minutes: requests that met
 * their targets, GPU hours, dollars, decisions. The laws are the rate law with its settings, Dynamo's laws with swept
 * settings, and one that knows the future. Then come bursts of other kinds, nights without requests, and two pools.
 * Each ends with the front: the rows of Dynamo's laws that are ahead of every row of the rate law.
 *
 *     npm run bench:part -- bench/planner.ts [--json]
 *     [step|diurnal|burst|burst-again|burst-short|burst-uneven|burst-rare|burst-long|burst-often|burst-low
 *     |burst-mixed|burst-tall|burst-busy|burst-wild|night|apart ...]
 */
import { simulate } from '../shared/simulate/index.ts';
import { summarize } from '../shared/simulate/summary.ts';
import type { Workload } from '../shared/simulate/workload.ts';
import { BURSTS } from './planner-bursts.ts';
import { APART, DYNAMO, FATES, FORESIGHT, NIGHT, RATE, REPLAYED } from './planner-cases.ts';
import {
  type FleetCase,
  type FleetFigures,
  fleetOptions,
  readAnyWorkload,
  WORKLOADS,
  type WorkloadName,
} from './planner-fleet.ts';

function play(each: FleetCase, workload: Workload, isApart: boolean): FleetFigures {
  const { scaling: outcome, gpuHours, ttftMs } = summarize(simulate(fleetOptions(each, workload, isApart)));
  const { attainment = 0, ups = 0, downs = 0, dollars = 0 } = outcome ?? {};
  return { name: each.name, attainment, gpuHours, dollars, ups, downs, ttftP99Ms: ttftMs.p99 };
}

function casesOf(name: WorkloadName): readonly FleetCase[] {
  if (name === 'night') return NIGHT;
  if (name === 'apart') return APART;
  if (name in BURSTS) return [...RATE, ...DYNAMO, FORESIGHT];
  return [...RATE, ...FATES, ...DYNAMO, FORESIGHT];
}

function head(name: WorkloadName): string {
  return `\n${name.padEnd(44)}  attained  GPU h    US$  ups/downs  TTFT p99 ms  Dynamo's own replay`;
}

function line(name: WorkloadName, figures: FleetFigures): string {
  const { name: law, attainment, gpuHours, dollars, ups, downs, ttftP99Ms } = figures;
  const replayed = REPLAYED[name]?.[law];
  const own = replayed === undefined ? '' : `  ${replayed[0].toFixed(3)} / ${replayed[1].toFixed(2)}`;
  const cells = [
    law.padEnd(44),
    attainment.toFixed(3).padStart(8),
    gpuHours.toFixed(2).padStart(5),
    dollars.toFixed(2).padStart(5),
    `${ups}/${downs}`.padStart(9),
    ttftP99Ms.toFixed(0).padStart(11),
  ];
  return cells.join('  ') + own;
}

/** By so much two runs differ that break ties otherwise: attainment, and share of the hours. */
const ATTAINMENT_NOISE = 0.005;
const HOURS_NOISE = 0.005;

/** Rows of Dynamo's whose attainment no row of the rate law's has for as many hours. */
function ahead(rows: readonly FleetFigures[]): readonly string[] {
  const ours = rows.filter(({ name }) => RATE.some((each) => each.name === name));
  return rows
    .filter(({ name }) => DYNAMO.some((each) => each.name === name))
    .filter(
      (row) =>
        !ours.some(
          ({ gpuHours, attainment }) =>
            gpuHours <= row.gpuHours * (1 + HOURS_NOISE) && attainment >= row.attainment - ATTAINMENT_NOISE,
        ),
    )
    .map(({ name, attainment, gpuHours }) => `${name} (${attainment.toFixed(3)} / ${gpuHours.toFixed(2)})`);
}

const named = WORKLOADS.filter((name) => process.argv.includes(name));
const isJson = process.argv.includes('--json');
for (const name of named.length > 0 ? named : WORKLOADS) {
  const workload = readAnyWorkload(name);
  if (!isJson) console.log(head(name));
  const rows = casesOf(name).map((each) => {
    const figures = play(each, workload, name === 'apart');
    if (!isJson) console.log(line(name, figures)); // a row a time: all of them take minutes
    return figures;
  });
  if (isJson) console.log(JSON.stringify({ workload: name, rows }));
  else if (name !== 'night' && name !== 'apart') {
    const front = ahead(rows);
    console.log(
      front.length === 0 ? "No setting of Dynamo's is ahead of the rate law." : `Ahead of it: ${front.join(', ')}`,
    );
  }
}
