import { spawnSync } from 'node:child_process';
import { constants } from 'node:fs';
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, programOnPath, runCommand, type Tool } from './tool.ts';

const DOWNLOAD_MS_MAX = 10 * 60_000;
const UNPACK_MS_MAX = 5 * 60_000;
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/**
 * A browser: the one on PATH, otherwise the distribution's package with the libraries that this machine lacks, unpacked
 * into the cache without root.
 */
export const chromium: Tool = {
  name: 'Chromium',
  variable: 'STATOR_TEST_CHROMIUM_BIN',
  neededBy: 'the console in a browser',
  async findInstalled() {
    for (const name of PROGRAMS) {
      const found = await programOnPath(name);
      if (found !== undefined) return found;
    }
    return cachedProgram();
  },
  async install() {
    await installOnce(folder(), async () => (await cachedProgram()) !== undefined, fill);
    return programIn(folder());
  },
};

async function fill(scratchFolder: string): Promise<void> {
  const packages = missingPackages();
  const archives = join(scratchFolder, 'archives');
  await mkdir(archives, { recursive: true });
  await runCommand('apt-get', ['download', ...packages], { timeoutMs: DOWNLOAD_MS_MAX, cwd: archives });
  for (const name of await readdir(archives)) {
    await runCommand('dpkg', ['-x', join(archives, name), join(scratchFolder, 'root')], { timeoutMs: UNPACK_MS_MAX });
  }
  await rm(archives, { recursive: true });
  await writeFile(join(scratchFolder, 'fonts.conf'), FONTS);
  await writeFile(programIn(scratchFolder), LAUNCHER);
  await chmod(programIn(scratchFolder), 0o755);
}

/** Returns Chromium's package and those that it needs and this machine lacks, by a dry run of their installation. */
function missingPackages(): readonly string[] {
  const args = ['install', '--simulate', '--no-install-recommends', 'chromium', 'fonts-dejavu-core'];
  const { status, stdout, stderr, error } = spawnSync('apt-get', args, { encoding: 'utf8', timeout: UNPACK_MS_MAX });
  if (error !== undefined) throw new Error(`apt-get cannot be started (${error.message})`);
  if (status !== 0) throw new Error(`apt-get knows no chromium: ${stderr.trim().split('\n').at(-1)}`);
  return [...stdout.matchAll(/^Inst (\S+)/gm)].map(([, name = '']) => name);
}

/** Chromium with the unpacked libraries and fonts. */
const LAUNCHER = `#!/bin/sh
here="$(dirname "$(readlink -f "$0")")"
lib="$here/root/usr/lib"
arch="$(ls -d "$lib"/*-linux-gnu* | head -n 1)"
export LD_LIBRARY_PATH="$arch:$lib:$arch/nss:$arch/pulseaudio:$here/root/lib/$(basename "$arch")\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export FONTCONFIG_FILE="$here/fonts.conf"
exec "$lib/chromium/chromium" "$@"
`;

const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<include ignore_missing="yes" prefix="relative">root/etc/fonts/fonts.conf</include>
<dir prefix="relative">root/usr/share/fonts</dir>
<dir>/usr/share/fonts</dir>
<cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`;

function cachedProgram(): Promise<string | undefined> {
  return pathIfPresent(programIn(folder()), constants.X_OK);
}

function programIn(installation: string): string {
  return join(installation, 'chromium');
}

function folder(): string {
  return join(cacheRoot(), 'chromium-1');
}
