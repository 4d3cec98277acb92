export default function Document() {
  return <p>Document</p>;
}
