/** A row of recorded cases, which returns the differences from the record. */
interface PlayedRow {
  readonly id: string;
  readonly play: () => readonly string[];
}

/**
 * Plays every row of the folder that the command line names, and says which rows fail. The process ends with status 1
 * if one does.
 * @param script the npm script, for the usage line
 */
export function playRows(script: string, readFolder: (folder: string) => readonly PlayedRow[]): void {
  const folder = process.argv[2];
  if (folder === undefined) {
    console.error(`usage: npm run ${script} -- DIR`);
    process.exit(2);
  }
  let failed = 0;
  const rows = readFolder(folder);
  for (const { id, play } of rows) {
    const failures = tryPlay(play);
    for (const failure of failures) console.log(`${id} FAILED ${failure}`);
    if (failures.length > 0) failed++;
  }
  console.log(`${rows.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

function tryPlay(play: () => readonly string[]): readonly string[] {
  try {
    return play();
  } catch (thrown) {
    return [`threw ${String(thrown)}`]; // a row of another shape than its fields promise
  }
}
