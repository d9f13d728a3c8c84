import type { Surroundings } from '../../../shared/config/values/value-type.ts';

/** A machine with only these files (path to content) and folders. */
export function machineWith(
  files: Readonly<Record<string, string>> = {},
  folders: readonly string[] = [],
  env: Readonly<Record<string, string | undefined>> = {},
): Surroundings {
  const read = (path: string): string => {
    const text = files[path];
    if (text === undefined) throw new Error(`${path} is not there`);
    return text;
  };
  return {
    homeDir: '/home/user',
    env,
    kindOf: (path) => (path in files ? 'file' : folders.includes(path) ? 'folder' : 'none'),
    readText: read,
    sizeBytes: (path) => read(path).length,
    interfaces: () => ({}),
  };
}
