import { readdirSync, readlinkSync } from 'node:fs';
import { load } from './llmload.ts';
import { residentMiB } from './processes.ts';
import type { Side } from './sides.ts';

const STREAMS = 2000;

/** Opens 2,000 streams at once, lets them all end, and compares memory and sockets with the idle process before. */
export async function soak(binary: string, side: Side, modelName: string) {
  const target = ['--url', side.url, '--model', modelName, '--watch', `frontend=${side.frontendPid}`];
  const wave = [
    '--stream',
    '--concurrency',
    String(STREAMS),
    '--requests',
    String(STREAMS),
    '--isl',
    '64',
    '--osl',
    '96',
    '--ignore-eos',
    '--ramp',
    '3s',
  ];
  await load(binary, [...target, ...wave]); // warms up: the code is compiled and the heap has its size
  await settle();
  const idle = { memoryMiB: residentMiB(side.frontendPid), sockets: socketsOf(side.frontendPid) };
  const report = await load(binary, [...target, ...wave]);
  await settle();
  const after = { memoryMiB: residentMiB(side.frontendPid), sockets: socketsOf(side.frontendPid) };
  const growth = after.memoryMiB / idle.memoryMiB;
  return [
    { workload: 'soak', figure: 'errors', values: { stator: report.errors }, verdict: verdict(report.errors === 0) },
    { workload: 'soak', figure: 'idle MiB before', values: { stator: idle.memoryMiB }, verdict: '' },
    {
      workload: 'soak',
      figure: 'idle MiB after',
      values: { stator: after.memoryMiB },
      verdict: `${growth.toFixed(2)} x, ${verdict(growth <= 1.2)}`,
    },
    {
      workload: 'soak',
      figure: 'sockets left',
      values: { stator: after.sockets - idle.sockets },
      verdict: verdict(after.sockets <= idle.sockets),
    },
  ];
}

function verdict(holds: boolean): string {
  return holds ? 'holds' : 'MISSED';
}

/** Long enough for idle connections to be closed (the server's keep-alive time-out) and for the collector to run. */
function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 12_000));
}

function socketsOf(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => isSocket(`${folder}/${fd}`)).length;
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    return false; // closed since it was listed
  }
}
