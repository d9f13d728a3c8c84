import { appendFileSync, chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderGpus } from '../../../shared/host/gpu/embedded-gpus.ts';
import { GpuWatch } from '../../../shared/host/gpu/gpu-watch.ts';
import { KernelLog } from '../../../shared/host/gpu/kernel-log.ts';
import { type GpuFigures, readFigures } from '../../../shared/host/gpu/nvidia-smi.ts';
import type { Logger } from '../../../shared/telemetry/index.ts';

const { signal } = new AbortController();
const SILENT: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, with: () => SILENT };
const TWO = '0, 87, 43121, 46068, 71, 0\n1, [N/A], 512, 46068, 40, [N/A]\n';

describe('GPUs', () => {
  const { PATH } = process.env;
  let folder: string;
  let seen: (readonly GpuFigures[])[];
  let xids: number[];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gpu-'));
    process.env.PATH = `${folder}:${PATH}`;
    seen = [];
    xids = [];
  });

  afterEach(() => {
    process.env.PATH = PATH;
    rmSync(folder, { recursive: true, force: true });
  });

  function nvidiaSmi(body: string): void {
    writeFileSync(join(folder, 'nvidia-smi'), `#!/bin/sh\n${body}\n`);
    chmodSync(join(folder, 'nvidia-smi'), 0o755);
  }

  function watch(queryMsMax = 5000): GpuWatch {
    return new GpuWatch({
      logger: SILENT,
      kernelLog: join(folder, 'kmsg'),
      queryMsMax,
      onFigures: (figures) => seen.push(figures),
      onXid: ({ code }) => xids.push(code),
    });
  }

  async function look(times: number, watched: GpuWatch): Promise<string | undefined> {
    for (let count = 0; count < times; count++) await watched.look(signal);
    await watched.close();
    return watched.fault;
  }

  it('report use, memory, temperature and memory errors, as far as they know them', async () => {
    nvidiaSmi(`printf '${TWO.replaceAll('\n', '\\n')}'`);
    expect(await look(1, watch())).toBeUndefined();
    expect(seen[0]).toEqual([
      {
        index: 0,
        usePercent: 87,
        memoryUsedBytes: 43121 * 2 ** 20,
        memoryTotalBytes: 46068 * 2 ** 20,
        temperatureC: 71,
        eccErrors: 0,
      },
      {
        index: 1,
        usePercent: undefined,
        memoryUsedBytes: 512 * 2 ** 20,
        memoryTotalBytes: 46068 * 2 ** 20,
        temperatureC: 40,
        eccErrors: undefined,
      },
    ]);
  });

  it('are faulty when nvidia-smi hangs three times in a row, and not before', async () => {
    nvidiaSmi('exec sleep 600');
    expect(await look(2, watch(50))).toBeUndefined();
    expect(await look(3, watch(50))).toBe('3 times in a row: nvidia-smi has not answered within 0.05 s');
  });

  it('are well again when nvidia-smi answers in between', async () => {
    nvidiaSmi(
      `if [ -e "$(dirname "$0")/well" ]; then echo '0, 1, 1, 1, 1, 0'; else echo 'GPU is lost' >&2; exit 15; fi`,
    );
    const watched = watch();
    await watched.look(signal);
    await watched.look(signal);
    writeFileSync(join(folder, 'well'), '');
    await watched.look(signal);
    rmSync(join(folder, 'well'));
    expect(await look(2, watched)).toBeUndefined();
    expect(await look(1, watched)).toBe('3 times in a row: GPU is lost');
  });

  it('are faulty with uncorrected memory errors', async () => {
    nvidiaSmi("echo '3, 1, 1, 1, 1, 2'");
    expect(await look(1, watch())).toBe('GPU 3 has 2 uncorrected memory errors');
  });

  it('are faulty by a fatal Xid, each told once, and not by one that a program causes', async () => {
    nvidiaSmi("echo '0, 1, 1, 1, 1, 0'");
    const log = join(folder, 'kmsg');
    writeFileSync(log, '3,7,1,-;NVRM: Xid (PCI:0000:65:00): 13, pid=1, Graphics Exception\n3,8,1,-;usb 1-1: new\n');
    const watched = watch();
    await watched.look(signal);
    expect(watched.fault).toBeUndefined();
    appendFileSync(log, '3,9,1,-;NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen');
    await watched.look(signal);
    expect(watched.fault).toBeUndefined(); // the line is not whole
    appendFileSync(log, ' off the bus.\n3,10,1,-;NVRM: Xid (PCI:0000:66:00): 48, pid=1, DBE\n');
    expect(await look(2, watched)).toContain('Xid 79');
    expect(xids).toEqual([79, 48]);
  });

  it.each([48, 63, 64, 74, 79, 94, 95])('take Xid %i for fatal', async (code) => {
    writeFileSync(join(folder, 'kmsg'), `3,7,1,-;NVRM: Xid (PCI:0000:65:00): ${code}, pid=1\n`);
    const log = new KernelLog(join(folder, 'kmsg'));
    expect((await log.read()).map((xid) => xid.code)).toEqual([code]);
    await log.close();
  });

  it('go to CloudWatch as one line, with the group as their only dimension', () => {
    const line = renderGpus(readFigures(TWO), {
      service: 'chat-1-spot',
      instanceId: 'i-1',
      timeMs: 1_800_000_000_000,
      xids: 1,
    });
    expect(JSON.parse(line)).toEqual({
      _aws: {
        Timestamp: 1_800_000_000_000,
        CloudWatchMetrics: [
          {
            Namespace: 'Stator',
            Dimensions: [['Service']],
            Metrics: [
              { Name: 'GpuUse', Unit: 'Percent' },
              { Name: 'GpuMemoryUse', Unit: 'Percent' },
              { Name: 'GpuTemperature', Unit: 'None' },
              { Name: 'GpuEccErrors', Unit: 'Count' },
              { Name: 'GpuXids', Unit: 'Count' },
            ],
          },
        ],
      },
      Service: 'chat-1-spot',
      InstanceId: 'i-1',
      GpuUse: 87,
      GpuMemoryUse: [93.6, 1.1],
      GpuTemperature: [71, 40],
      GpuEccErrors: 0,
      GpuXids: 1,
    });
    expect(line.endsWith('\n')).toBe(true);
  });

  it('are not watched without nvidia-smi', async () => {
    process.env.PATH = folder;
    expect(await look(4, watch())).toBeUndefined();
    expect(existsSync(join(folder, 'nvidia-smi'))).toBe(false);
  });
});
