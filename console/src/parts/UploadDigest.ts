/** SHA-256 of files. The browser's own if it has one: pages of other hosts without TLS have none. */

const BLOCK = 1 << 20;

/** The SHA-256 of a file, in hexadecimal. */
export async function sha256(file: Blob): Promise<string> {
  const subtle = (globalThis.crypto as Crypto | undefined)?.subtle as SubtleCrypto | undefined;
  if (subtle) return hex(new Uint8Array(await subtle.digest("SHA-256", await file.arrayBuffer())));
  const digest = new Sha256();
  for (let at = 0; at < file.size; at += BLOCK) {
    digest.update(new Uint8Array(await file.slice(at, at + BLOCK).arrayBuffer()));
  }
  return hex(digest.end());
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** SHA-256 as FIPS 180-4 defines it, fed in pieces. */
export class Sha256 {
  private readonly state = INITIAL.slice();
  private readonly words = new Int32Array(64);
  private rest: Uint8Array = new Uint8Array(0);
  private length = 0;

  update(bytes: Uint8Array): void {
    this.length += bytes.length;
    const joined = new Uint8Array(this.rest.length + bytes.length);
    joined.set(this.rest);
    joined.set(bytes, this.rest.length);
    const view = new DataView(joined.buffer);
    let at = 0;
    for (; at + 64 <= joined.length; at += 64) this.block(view, at);
    this.rest = joined.slice(at);
  }

  end(): Uint8Array {
    const bits = this.length * 8;
    const padding = new Uint8Array(((119 - (this.length % 64)) % 64) + 9);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(padding.length - 4, bits >>> 0);
    this.update(padding);
    const found = new DataView(new ArrayBuffer(32));
    this.state.forEach((word, index) => found.setInt32(4 * index, word));
    return new Uint8Array(found.buffer);
  }

  private block(view: DataView, at: number): void {
    const w = this.words;
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const early = w[i - 15] as number;
      const late = w[i - 2] as number;
      const s0 = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
      const s1 = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
      w[i] = ((w[i - 16] as number) + s0 + (w[i - 7] as number) + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const one = (h + s1 + ((e & f) ^ (~e & g)) + (ROUNDS[i] as number) + (w[i] as number)) | 0;
      const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (this.state[i] = ((this.state[i] as number) + word) | 0));
  }
}

const turn = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

/** The first 32 bits of the fractions of a root of each of the first primes: of square roots, and of cube roots. */
function fractions(count: number, root: (prime: number) => number): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  return Int32Array.from(primes, (prime) => ((root(prime) % 1) * 2 ** 32) | 0);
}

const INITIAL = fractions(8, Math.sqrt);
const ROUNDS = fractions(64, Math.cbrt);
