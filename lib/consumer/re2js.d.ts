// What is used of re2js.
declare module 're2js' {
  export class RE2JS {
    /** Throws where RE2 has no such pattern. */
    static compile(pattern: string): RE2JS;
    /** A pattern of JavaScript in the syntax of RE2. */
    static translateRegExp(pattern: string): string;
    /** Instructions of the compiled pattern. */
    programSize(): number;
    matcher(text: string): { find(): boolean };
  }
}
